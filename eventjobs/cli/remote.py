"""The coordinator as the commands use it: JSON text in, JSON text out.

Texts pass through unparsed, so that numbers and strings stay exactly as they were sent. A refused connection is tried
again for a moment, for a coordinator that is just being started; nothing else is: a command says at once what stands in
its way, and whoever runs it decides.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import getpass
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

import click
import orjson

from eventjobs.cli import exits, options
from eventjobs.client import errors
from eventjobs.client.settings import Timeouts
from eventjobs.client.stream import Messages
from eventjobs.client.transport import Transport
from eventjobs.domain.limits import URL_DEFAULT

T = TypeVar("T")

ANSWER_SECONDS = 60.0
"""How long an answer may take: a command waits more patiently than a program."""
NOT_RUNNING = "; is it running? start one with `eventjobs serve`, or name another with --url / EVENTJOBS_URL"
START_SECONDS = 3.0
"""How long a coordinator that was started just before may refuse connections. Nothing was sent by then."""
PAUSE_SECONDS = 0.1


UUID_FORM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)

HINTS = {
    "not_found": f"; --url should be the address of the coordinator itself, such as {URL_DEFAULT}",
    "job_not_found": "; a job that was retired is in the log alone: `eventjobs history ID --data DIR` tells of it",
}
"""By the code of a refusal. The commands ask for no path that a coordinator does not have."""


class Problem(exits.Refused):
    """The coordinator refused; `code` is the stable name of the reason."""

    def __init__(self, refusal: errors.Refused) -> None:
        known = f" (job {refusal.job.id})" if isinstance(refusal, errors.IdempotencyKeyReused) and refusal.job else ""
        super().__init__(f"{refusal}{known}{HINTS.get(refusal.code, '')}")
        self.code = refusal.code


def job_path(job_id: str, *more: str) -> str:
    """The path of a job, or of something below it. Raises Refused for a text that is the id of no job."""
    if not UUID_FORM.fullmatch(job_id):
        raise exits.Refused(f"{job_id!r} is no job id, such as 01890a5d-ac96-774b-bcce-b302099a8057")
    return "/".join(("/jobs", job_id, *more))


class Remote:
    """The coordinator at a URL, asked in the name of `actor`. Use it as a context manager.

    Every call raises Problem when it is refused, Unreachable when nothing that is a coordinator answers.
    """

    def __init__(self, url: str, actor: str | None = None) -> None:
        try:
            self._transport = Transport(url, actor, Timeouts(answer_seconds=ANSWER_SECONDS))
        except errors.InvalidValue as error:
            raise click.UsageError(str(error)) from error
        self.url = self._transport.url
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._transport.close())
        self._runner.close()

    def get(self, path: str, **query: object) -> bytes:
        """The answer to a GET. Parameters that are None are left out."""
        return self._request("GET", path, query=query)

    def post(self, path: str, body: object) -> bytes:
        """The answer to a POST; `body` is anything orjson writes, with orjson.Fragment for texts to pass through."""
        return self._request("POST", path, body=orjson.dumps(body))

    def download(self, path: str, write: Callable[[bytes], None]) -> Mapping[str, str]:
        """Give the pieces of a file to `write` as they come; the answer's headers. Nothing is tried again."""

        async def fetch() -> Mapping[str, str]:
            async with self._transport.download(path) as (headers, pieces):
                async for piece in pieces:
                    write(piece)
                return headers

        return self._wait(fetch())

    def events(self, after: int) -> Iterator[bytes]:
        """The texts of the events with positions above `after`, as they are recorded, until the stream ends.

        The stream is open when this returns.
        """
        stream = self._transport.stream("/events", last_event_id=after)
        return self._texts(stream, self._wait(stream.__aenter__()))

    def _texts(self, stream: AbstractAsyncContextManager, chunks: AsyncIterator[bytes]) -> Iterator[bytes]:
        messages = Messages()
        try:
            while (chunk := self._wait(anext(chunks, None))) is not None:
                yield from messages.feed(chunk)
        finally:
            self._wait(stream.__aexit__(None, None, None))

    def _request(self, method: str, path: str, **parts: Any) -> bytes:
        give_up_at = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._wait(self._transport.request(method, path, **parts))
            except exits.Unreachable as error:
                if not _connection_refused(error) or time.monotonic() >= give_up_at:
                    raise
            time.sleep(PAUSE_SECONDS)

    def _wait(self, request: Awaitable[T]) -> T:
        try:
            return self._runner.run(_awaited(request))
        except (errors.Unreachable, errors.BadAnswer, errors.Unavailable) as error:
            hint = NOT_RUNNING if isinstance(error.__cause__, ConnectionRefusedError) else ""
            raise exits.Unreachable(f"{error}{hint}") from error
        except errors.Refused as refusal:
            raise Problem(refusal) from refusal


def _connection_refused(error: exits.Unreachable) -> bool:
    cause = error.__cause__ and error.__cause__.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED


async def _awaited(request: Awaitable[T]) -> T:
    return await request


def with_remote(command: Callable[..., None]) -> Callable[..., None]:
    """--url: the command, which only looks, gets the coordinator it stands for as `remote`."""

    @options.url_option
    @functools.wraps(command)
    def asking(url: str, **arguments: Any) -> None:
        with Remote(url) as remote:
            command(remote=remote, **arguments)

    return asking


def with_actor(command: Callable[..., None]) -> Callable[..., None]:
    """--url and --actor, of commands that put something in: the log keeps who asked."""
    return _with_actor(command, lambda: None, "your network address")


def with_operator(command: Callable[..., None]) -> Callable[..., None]:
    """The same for what an operator does to jobs that are there: the log keeps who it was at which machine."""
    return _with_actor(command, user_at_host, "USER@HOST")


def _with_actor(
    command: Callable[..., None], default_actor: Callable[[], str | None], words: str
) -> Callable[..., None]:
    @options.url_option
    @options.setting("--actor", metavar="NAME", help=f"Who asks, for the log; {words} when left out.")
    @functools.wraps(command)
    def asking(url: str, actor: str | None, **arguments: Any) -> None:
        with Remote(url, default_actor() if actor is None else actor) as remote:
            command(remote=remote, **arguments)

    return asking


def user_at_host() -> str:
    """Who runs this, and at which machine, as the log names an operator."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
