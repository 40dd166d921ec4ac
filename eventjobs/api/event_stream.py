"""The log as a stream of server-sent events: what is there, then what comes, until the reader leaves.

The log itself is the buffer. A reader gets the next piece when it has taken the last one; one that takes too long is
cut off and comes back with the id of the last event it saw.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from eventjobs.api.render_events import event_text
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.limits import STREAM_COMMENT_SECONDS, STREAM_WRITE_SECONDS_MAX

CONTENT_TYPE = "text/event-stream"
CHUNK_RECORDS = 100
COMMENT = b":\n\n"


class EventStream:
    """One reader's stream of the events after position `after`; it ends after `limit` events if that is given."""

    def __init__(self, coordinator: Coordinator, after: int, limit: int | None) -> None:
        self._coordinator = coordinator
        self._after = after
        self._left = limit

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Send until the reader is cut off, the limit is reached, or the coordinator drains.

        Raises ConnectionError when the reader has left.
        """
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            await self._follow(response)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _follow(self, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        next_comment = clock() + STREAM_COMMENT_SECONDS
        while self._left != 0:
            if chunk := self._next_chunk():
                await self._write(response, chunk)
            elif self._coordinator.draining:
                return
            else:
                await self._coordinator.log_moved(self._after, max(0.0, next_comment - clock()))
            if clock() >= next_comment:
                await self._write(response, COMMENT)
                next_comment = clock() + STREAM_COMMENT_SECONDS

    def _next_chunk(self) -> bytes:
        """The next events as the stream has them; b"" when there are none yet."""
        with self._coordinator.read() as view:
            if self._after >= view.head().size:
                return b""
            wanted = CHUNK_RECORDS if self._left is None else min(CHUNK_RECORDS, self._left)
            records = view.records(self._after, wanted)
            chunk = b"".join(
                b"id: %d\nevent: %s\ndata: %s\n\n" % (record.position, record.event.type.encode(), event_text(record))
                for record in records
            )
        self._after = records[-1].position
        if self._left is not None:
            self._left -= len(records)
        return chunk

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Send a piece and wait until the reader has room for more. Raises TimeoutError when it takes too long."""
        async with asyncio.timeout(STREAM_WRITE_SECONDS_MAX):
            await response.write(piece)
        await asyncio.sleep(0)  # a write that does not have to wait would let nobody else in
