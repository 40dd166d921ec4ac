"""The log as a stream of server-sent events: what is there, then what comes, until the reader leaves.

The log itself is the buffer. A reader gets the next piece when it has taken the last one; one that takes too long is
cut off and comes back with the id of the last event it saw.
"""

from __future__ import annotations

import asyncio
from functools import partial

from aiohttp import web

from eventjobs.api.render_events import event_text
from eventjobs.api.view import View
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
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

        It ends as well when a shared store is away, or the store has failed. Raises ConnectionError when the reader has
        left.
        """
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            await self._follow(response)
        except (Unavailable, UnknownOutcome):
            return response  # the reader comes back, and is told of it then
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _follow(self, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        next_comment = clock() + STREAM_COMMENT_SECONDS
        while self._left != 0:
            if chunk := await self._next_chunk():
                await self._write(response, chunk)
            elif self._coordinator.draining:
                return
            else:
                await self._coordinator.log_moved(self._after, max(0.0, next_comment - clock()))
            if clock() >= next_comment:
                await self._write(response, COMMENT)
                next_comment = clock() + STREAM_COMMENT_SECONDS

    async def _next_chunk(self) -> bytes:
        """The next events as the stream has them; b"" when there are none yet."""
        wanted = CHUNK_RECORDS if self._left is None else min(CHUNK_RECORDS, self._left)
        count, chunk = await self._coordinator.look(partial(_chunk, after=self._after, wanted=wanted))
        self._after += count
        if self._left is not None:
            self._left -= count
        return chunk

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Send a piece and wait until the reader has room for more. Raises TimeoutError when it takes too long."""
        async with asyncio.timeout(STREAM_WRITE_SECONDS_MAX):
            await response.write(piece)
        await asyncio.sleep(0)  # a write that does not have to wait would let nobody else in


def _chunk(view: View, after: int, wanted: int) -> tuple[int, bytes]:
    """Up to `wanted` events beyond a position, which follow it without a gap: how many it were, and their text."""
    if after >= view.head().size:
        return 0, b""
    records = view.records(after, wanted)
    return len(records), b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (record.position, record.event.type.encode(), event_text(record))
        for record in records
    )
