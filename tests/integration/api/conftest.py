"""A coordinator with its HTTP API in this process: memory engine, a clock that the test moves, a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from io import BytesIO

import aiohttp
import orjson
import pytest
from aiohttp import web
from attrs import define, frozen

from eventjobs.api.app import RUNNER_OPTIONS, build_app
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StorageFull
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.builders import START, seconds

JSON = {"Content-Type": "application/json"}


@frozen
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return orjson.loads(self.body)

    def faults(self) -> dict[str, str]:
        """The faults of an invalid request: message by path. The answer must be such a refusal."""
        self.refusal(422, "invalid_request")
        return {error["path"]: error["message"] for error in self.json["errors"]}

    def refusal(self, status: int, code: str) -> dict:
        """The problem, which must be of this status and code."""
        assert (self.status, self.json.get("code"), self.json.get("status")) == (status, code, status), self
        assert self.headers["Content-Type"] == "application/problem+json"
        return self.json


@define
class HandClock:
    """Stands still until it is moved."""

    time: int = START

    def now(self) -> int:
        return self.time

    def pass_seconds(self, number: float) -> None:
        self.time += seconds(number)


@frozen
class Api:
    """A client that says everything byte by byte."""

    session: aiohttp.ClientSession
    base: str
    coordinator: Coordinator
    engine: MemoryEngine
    clock: HandClock

    async def call(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None, headers: dict | None = None
    ) -> Answer:
        """`body` goes as JSON, `raw` as it is; headers are added to, or replace, the content type."""
        if raw is None and body is not None:
            raw = json.dumps(body).encode()
        heads = {} if raw is None else JSON
        data = None if raw is None else BytesIO(raw)
        sent = self.session.request(
            method, self.base + path, data=data, headers={**heads, **(headers or {})},
            skip_auto_headers=["Content-Type"],
        )  # fmt: skip
        async with sent as response:
            return Answer(response.status, response.headers.copy(), await response.read())

    async def enqueue(self, **job: object) -> dict:
        """A new job."""
        answer = await self.call("POST", "/jobs", {"kind": "k", **job})
        assert answer.status == 201, answer
        return answer.json

    async def lease(self, **more: object) -> list[dict]:
        """Jobs leased by the worker `w`."""
        answer = await self.call("POST", "/lease", {"worker": "w", **more})
        assert answer.status == 200, answer
        return answer.json["jobs"]

    async def log_size(self) -> int:
        """How many records the log has."""
        with self.coordinator.read() as view:
            return view.head().size


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A coordinator of its own, without jobs."""
    engine, clock = MemoryEngine(READ_MODELS), HandClock()
    coordinator = await Coordinator.start(engine, clock)
    runner = web.AppRunner(build_app(coordinator), **RUNNER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield Api(session, f"http://127.0.0.1:{runner.addresses[0][1]}", coordinator, engine, clock)
        coordinator.drain()
    await runner.cleanup()
    await coordinator.stop()


@pytest.fixture
def full_after(api: Api, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Callable[[], None]]:
    """Has the store say after so many commits that the disk is full; what that gives makes room again."""
    commit, commits = api.engine.commit, []

    def begin(number: int) -> Callable[[], None]:
        def commit_until_full() -> None:
            if len(commits) == number:
                api.engine.abort()
                raise StorageFull("the disk is full")
            commits.append(None)
            commit()

        monkeypatch.setattr(api.engine, "commit", commit_until_full)
        return lambda: monkeypatch.setattr(api.engine, "commit", commit)

    return begin


@pytest.fixture
def lease_began(api: Api, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a lease request is with the coordinator, its first attempt in the queue."""
    began, lease = asyncio.Event(), api.coordinator.lease

    def told_lease(*args: object, **kwargs: object) -> Awaitable[list]:
        asyncio.get_running_loop().call_soon(began.set)
        return lease(*args, **kwargs)

    monkeypatch.setattr(api.coordinator, "lease", told_lease)
    return began


@pytest.fixture
def turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by "read" with every look at the store, and by "other" when something else, ready since, gets its turn."""
    turns, look = [], api.coordinator.look

    async def told_look(question: object) -> object:
        turns.append("read")
        asyncio.get_running_loop().call_soon(turns.append, "other")
        return await look(question)

    monkeypatch.setattr(api.coordinator, "look", told_look)
    return turns
