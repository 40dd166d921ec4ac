"""One HTTP request and its answer, and the boundary where foreign errors become ours."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import msgspec
from yarl import URL

from eventjobs import __version__
from eventjobs.client.addresses import Addresses
from eventjobs.client.answers import Problem
from eventjobs.client.checks import setting
from eventjobs.client.errors import BadAnswer, EventjobsError, InvalidValue, Unavailable, Unreachable, refusal
from eventjobs.client.settings import Timeouts
from eventjobs.domain.limits import ACTOR_LENGTH_MAX

JSON = "application/json"
PROBLEM = "application/problem+json"
EVENT_STREAM = "text/event-stream"
FILE = "application/octet-stream"
GATEWAY_STATUSES = {429, 502, 503, 504}
"""What a gateway in between answers while the coordinator is away or it is asked too often."""
EXCERPT_LENGTH = 200
SILENCE_SECONDS = 45.0
"""How long an event stream may be silent; the coordinator sends a comment every 15 s."""


class Transport:
    """Requests to a coordinator over kept-open connections. Bound to the event loop of its first request.

    Of several coordinators of one store one is asked. When it does not answer, or not now, that is raised as ever, and
    the next request goes to the next of them.
    """

    def __init__(
        self,
        url: str,
        actor: str | None,
        timeouts: Timeouts,
        session: Callable[..., aiohttp.ClientSession] = aiohttp.ClientSession,
    ) -> None:
        """`url` may have a path, which goes before every path, and may be several with commas between. Raises
        InvalidValue for what is no address."""
        self._addresses = Addresses(url)
        self.url = str(self._addresses)
        self._headers = {"Accept": JSON, "User-Agent": f"eventjobs/{__version__}"}
        if actor is not None:
            self._headers["Eventjobs-Actor"] = _actor(actor)
        self._timeouts = timeouts
        self._open_session = session
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        wait_seconds: float = 0.0,
    ) -> bytes:
        """The body of a good answer. `wait_seconds` is how long the coordinator was asked to hold its answer back.

        Raises Unreachable, BadAnswer or Refused.
        """
        headers = {} if body is None else {"Content-Type": JSON}
        answer_seconds = self._timeouts.answer_seconds + wait_seconds
        timeout = aiohttp.ClientTimeout(
            total=answer_seconds + self._timeouts.transfer_seconds,
            sock_connect=self._timeouts.connect_seconds,
            sock_read=answer_seconds,
        )
        with self._translated(method, path):
            async with await self._request(method, path, query, body, headers, timeout) as response:
                return await _good_body(response)

    @asynccontextmanager
    async def stream(self, path: str, *, last_event_id: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an event stream as they come; reading them raises Unreachable when it falls silent or breaks.

        Opening it raises Unreachable, BadAnswer or Refused.
        """
        headers = {"Accept": EVENT_STREAM, "Last-Event-ID": str(last_event_id)}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeouts.connect_seconds, sock_read=SILENCE_SECONDS
        )
        with self._translated("GET", path):
            response = await self._request("GET", path, None, None, headers, timeout)
        async with response:
            await self._refuse_other(response, path, EVENT_STREAM)
            yield self._chunks(response, path)

    @asynccontextmanager
    async def download(self, path: str) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[bytes]]]:
        """Headers and chunks of a file, however large; reading them raises Unreachable when it breaks off.

        Opening it raises Unreachable, BadAnswer or Refused.
        """
        seconds = self._timeouts.answer_seconds
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_seconds, sock_read=seconds)
        with self._translated("GET", path):
            response = await self._request("GET", path, None, None, {"Accept": FILE}, timeout)
        async with response:
            await self._refuse_other(response, path, FILE)
            yield response.headers, self._chunks(response, path)

    async def _refuse_other(self, response: aiohttp.ClientResponse, path: str, content_type: str) -> None:
        """Raise what an answer means that is not the one asked for."""
        if response.status != 200 or response.content_type != content_type:
            with self._translated("GET", path):
                await _good_body(response)
            raise BadAnswer(f"{content_type} was asked for, but {response.content_type} came")

    async def _chunks(self, response: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
        with self._translated("GET", path):
            async for chunk in response.content.iter_any():
                yield chunk

    async def close(self) -> None:
        """Close the connections. Requests in flight fail; there are no more after this."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None,
        body: bytes | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if self._closed:
            raise RuntimeError("this client was closed")
        if self._session is None:
            self._session = self._open_session(headers=self._headers)
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = URL(f"{self._addresses.current}{path}", encoded=True).with_query(given)
        return await self._session.request(
            method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
        )

    @contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        url = self._addresses.current
        try:
            with _of_ours(url, method, path):
                yield
        except (Unreachable, Unavailable):
            self._addresses.turn_from(url)
            raise


@contextmanager
def _of_ours(url: str, method: str, path: str) -> Iterator[None]:
    """Foreign errors as ours."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError) as error:
        raise Unreachable(f"no coordinator answers at {url}: {error}", sent=False) from error
    except aiohttp.ClientConnectorError as error:
        cause = error.os_error.with_traceback(None)  # where in the library it was refused helps nobody
        raise Unreachable(f"no coordinator answers at {url}: {_reason(cause)}", sent=False) from cause
    except aiohttp.ConnectionTimeoutError as error:
        raise Unreachable(f"no coordinator answers at {url}: {error}", sent=False) from error
    except (aiohttp.ClientError, OSError) as error:
        reason = _reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__
        raise Unreachable(f"no answer from {url} to {method} {path}: {reason}") from error


def _reason(error: OSError) -> str:
    """Why there is no connection, in the system's words."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error.strerror or error)
    return os.strerror(error.errno).lower()


async def _good_body(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status in (200, 201):
        return body
    raise _failure(response, body)


def _failure(response: aiohttp.ClientResponse, body: bytes) -> EventjobsError:
    """What an answer other than a good one means. Only a refusal in the coordinator's own form counts as one."""
    if response.content_type == PROBLEM:
        try:
            problem = msgspec.json.decode(body, type=Problem)
        except msgspec.DecodeError as error:
            failure = BadAnswer(f"a refusal that cannot be read: {error}")
            failure.__cause__ = error
            return failure
        return refusal(problem, _retry_after(response))
    excerpt = body[:EXCERPT_LENGTH].decode("utf-8", "replace")
    text = f"HTTP {response.status} from something that is not a coordinator: {excerpt!r}"
    return Unreachable(text) if response.status in GATEWAY_STATUSES else BadAnswer(text)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds of the Retry-After header; None when there is none or it is a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _actor(name: str) -> str:
    setting("actor", name, str, "a text")
    if not (0 < len(name) <= ACTOR_LENGTH_MAX and name.isascii() and name.isprintable()):
        raise InvalidValue(f"an actor's name has 1 to {ACTOR_LENGTH_MAX} printable ASCII characters, unlike {name!r}")
    return name
