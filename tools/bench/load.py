"""A light HTTP/1.1 load generator: keep-alive connections that send the next request when the answer is there.

It reads just enough of an answer (status, length, body) to know that it was good, so that on two cores the server and
not the client is what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import orjson

CONNECT_SECONDS = 10.0


class BadAnswer(Exception):
    """A request of the load was refused: the measurement means nothing."""


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request under way at a time. Made by `connect`."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> Connection:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BadAnswer(f"the connection was lost: {error}"))

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head, mark, rest = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(rest) >= length:
            self._buffer = rest[length:]
            self._answer.set_result((int(head[9:12]), rest[:length]))

    async def send(self, request: bytes) -> bytes:
        """The body of the answer. Raises BadAnswer unless its status is 2xx."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        status, body = await self._answer
        if not 200 <= status < 300:
            raise BadAnswer(f"status {status}: {body[:300].decode('utf-8', 'replace')}")
        return body

    def close(self) -> None:
        self._transport.close()


def get(path: str) -> bytes:
    """The bytes of a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def post(path: str, body: object) -> bytes:
    """The bytes of a POST request with a JSON body (an object, or bytes that are JSON already)."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def many(
    address: tuple[str, int], connections: int, each: Callable[[Connection], Awaitable[int]], seconds: float
) -> float:
    """Things done a second: `each` is repeated on every connection until the time is up and returns how many it did.

    A step that returns 0 ends its connection's part.
    """
    opened = [await Connection.connect(*address) for _ in range(connections)]
    started = time.perf_counter()

    async def repeat(connection: Connection) -> int:
        done = 0
        while time.perf_counter() - started < seconds:
            step = await each(connection)
            if not step:
                break
            done += step
        return done

    try:
        done = sum(await asyncio.gather(*map(repeat, opened)))
    finally:
        for connection in opened:
            connection.close()
    return done / (time.perf_counter() - started)
