"""A scripted server on the loopback interface: it answers each request with the next step, and remembers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from attrs import define, field, frozen

Step = Callable[["Asked", web.Request], Awaitable[web.StreamResponse]]


@frozen
class Asked:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


@define
class Script:
    """Steps to answer with, the last one again and again, and what was asked."""

    url: str
    steps: list[Step] = field(factory=list)
    asked: list[Asked] = field(factory=list)

    def answer(self, *steps: Step) -> None:
        """Answer with these from now on."""
        self.steps = list(steps)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
            asyncio.get_running_loop().time(),
        )
        self.asked.append(asked)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return await step(asked, request)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A running server; script.answer(...) tells it what to say."""
    app = web.Application()
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    script = Script("")
    app.router.add_route("*", "/{tail:.*}", script.serve)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    script.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    yield script
    await runner.cleanup()


@pytest.fixture
def says() -> Callable[..., Step]:
    """A step that answers with JSON: says(value, status=200, headers=None)."""

    def make(value: Any, status: int = 200, headers: dict[str, str] | None = None, kind: str = "json") -> Step:
        async def step(asked: Asked, request: web.Request) -> web.Response:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            content_type = kind if "/" in kind else f"application/{kind}"
            return web.Response(body=body, status=status, headers=headers, content_type=content_type)

        return step

    return make


@pytest.fixture
def refuses(says) -> Callable[..., Step]:
    """A step that refuses: refuses(status, code, headers=None, **more)."""

    def make(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> Step:
        document = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": "why", **more}
        return says(document, status, headers, "problem+json")

    return make


@pytest.fixture
def breaks() -> Step:
    """A step that reads the request and closes the connection without a word."""

    async def step(asked: Asked, request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    return step


@pytest.fixture
def hangs() -> Step:
    """A step that never answers."""

    async def step(asked: Asked, request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    return step


@pytest.fixture
def document() -> dict[str, Any]:
    """A job as the wire has it."""
    return {
        "id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "kind": "work",
        "queue": "default",
        "priority": 0,
        "payload": {"n": 1},
        "state": "queued",
        "attempts": 0,
        "max_attempts": 5,
        "retry_policy": {"type": "constant", "base": 1},
        "run_at": "2030-01-01T07:00:00.000001Z",
        "lease_owner": None,
        "lease_expires_at": None,
        "lease_token": 0,
        "result": None,
        "error": None,
        "idempotency_key": "k",
        "created_at": "2030-01-01T07:00:00.000000Z",
        "updated_at": "2030-01-01T07:00:00.000000Z",
        "finished_at": None,
        "a_member_of_a_later_version": True,
    }
