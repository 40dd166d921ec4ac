"""A proxy before a PostgreSQL that cuts connections where it hurts: between a commit and its answer, or before it.

async with CuttingProxy.before("127.0.0.1", 5432) as proxy:
    ...  # coordinators use proxy.url_of(url)
    await proxy.cut_an_answer()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import urlsplit, urlunsplit

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""What the server says when a commit is done."""
CHUNK_BYTES = 1 << 16
CUT_SECONDS_MAX = 30.0


class CuttingProxy:
    """Passes on everything, until it is told to cut. `cuts` counts."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._own_port = 0
        self._cuts_answer = self._cuts_request = False
        self._was_cut = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()
        self.cuts = 0

    @classmethod
    @asynccontextmanager
    async def before(cls, host: str, port: int) -> AsyncIterator[Self]:
        """A proxy before the server at an address, on a free port of the loopback interface."""
        proxy = cls(host, port)
        server = await asyncio.start_server(proxy._client, "127.0.0.1", 0)
        proxy._own_port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            for task in proxy._tasks:
                task.cancel()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)

    def url_of(self, url: str) -> str:
        """The URL of a database of the server by way of the proxy."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self._own_port}"))

    async def cut_an_answer(self) -> None:
        """Cut the next connection that a commit was done on before that is told, and wait until it happened."""
        self._cuts_answer = True
        await self._cut()

    async def cut_a_request(self) -> None:
        """Cut the next connection on which something is asked, before it arrives, and wait until it happened."""
        self._cuts_request = True
        await self._cut()

    async def _cut(self) -> None:
        self._was_cut.clear()
        async with asyncio.timeout(CUT_SECONDS_MAX):
            await self._was_cut.wait()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        try:
            upstream_reader, upstream = await asyncio.open_connection(self._host, self._port)
            ends = (writer, upstream)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_on(reader, upstream, ends, self._cuts_this_request))
                    group.create_task(self._pass_on(upstream_reader, writer, ends, self._cuts_this_answer))
            finally:
                upstream.transport.abort()
        except* OSError:  # the server is away, or one end has gone: so has the other
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(asyncio.current_task())

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        cuts: Callable[[bytes], bool],
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if cuts(data):
                self.cuts += 1
                self._was_cut.set()
                break
            writer.write(data)
            await writer.drain()
        for end in ends:
            end.transport.abort()

    def _cuts_this_request(self, data: bytes) -> bool:
        cuts, self._cuts_request = self._cuts_request, False
        return cuts

    def _cuts_this_answer(self, data: bytes) -> bool:
        if not self._cuts_answer or COMMITTED not in data:
            return False
        self._cuts_answer = False
        return True
