"""GET /backup: the whole store as of now, streamed while the coordinator goes on.

A thread writes the copy into a pipe, the event loop passes on what comes out of it, and no more of it is in memory than
the pieces in between. Who stops reading holds that moment of the store for BACKUP_WRITE_SECONDS_MAX and no longer, and
who reads slowly for as long as BACKUP_BYTES_PER_SECOND_MIN allows.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.problems import Problem, Refused
from eventjobs.api.query import Query
from eventjobs.api.view import Copy
from eventjobs.domain.limits import BACKUP_BYTES_PER_SECOND_MIN, BACKUP_PIECE_BYTES, BACKUP_WRITE_SECONDS_MAX

CONTENT_TYPE = "application/octet-stream"

log = structlog.get_logger("eventjobs.api")


async def get_backup(request: web.Request) -> web.StreamResponse:
    """The copy; its head in headers. Broken off, rather than ended, when it cannot be had to its end."""
    faults = Faults()
    Query(request, faults).end()
    faults.refuse_if_any()
    with request.app[COORDINATOR].copy() as copy:
        if copy is None:
            raise Refused(Problem("not_supported", "the engine of this coordinator has backups of its own; use those"))
        response = web.StreamResponse(headers=_headers(copy))
        await response.prepare(request)
        if request.method != "HEAD" and not await _send(copy, response) and request.transport is not None:
            request.transport.abort()
    return response


def _headers(copy: Copy) -> dict[str, str]:
    size, root = copy.head.size, base64.b64encode(copy.head.root).decode()
    name = f'attachment; filename="eventjobs-{size}.mdb"'
    return {
        "Content-Type": CONTENT_TYPE,
        "Content-Disposition": name,
        "Cache-Control": "no-store",
        "Eventjobs-Log-Size": str(size),
        "Eventjobs-Log-Root": root,
    }


async def _send(copy: Copy, response: web.StreamResponse) -> bool:
    """Send the copy; whether all of it was sent. Raises ConnectionError when the reader has left."""
    read_end, write_end = os.pipe()
    loop = asyncio.get_running_loop()
    writing = loop.run_in_executor(None, _write, copy, write_end)
    sent, spent = 0, 0.0
    try:
        async with _reading(read_end) as pieces:
            while piece := await pieces.read(BACKUP_PIECE_BYTES):
                begun = loop.time()
                async with asyncio.timeout(seconds_for_next(sent, spent)):
                    await response.write(piece)
                sent += len(piece)
                spent += loop.time() - begun
    except TimeoutError:
        log.warning("backup_cut_off", reason="its reader is too slow", bytes=sent, seconds=round(spent, 3))
        return False
    finally:
        fault = await _end_of(writing)
    if fault is not None:
        log.error("backup_failed", reason=str(fault))
    return fault is None


def seconds_for_next(sent: int, spent: float) -> float:
    """How long a reader may take for the next piece, after so many bytes for which it took so many seconds."""
    left = BACKUP_WRITE_SECONDS_MAX + sent / BACKUP_BYTES_PER_SECOND_MIN - spent
    return min(BACKUP_WRITE_SECONDS_MAX, left)


@asynccontextmanager
async def _reading(read_end: int) -> AsyncIterator[asyncio.StreamReader]:
    """What comes out of a pipe, whose reading end is closed afterwards: then who still writes into it is told."""
    reader = asyncio.StreamReader(limit=BACKUP_PIECE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
    )
    try:
        yield reader
    finally:
        transport.close()


async def _end_of(writing: asyncio.Future[None]) -> BaseException | None:
    """Wait until the thread is done with the copy, which must not be closed before; also when told to stop. It has
    nobody to write to any more, so this does not take long. What went wrong there, None if nothing did."""
    stopped: asyncio.CancelledError | None = None
    while not writing.done():
        try:
            await asyncio.wait([writing])
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is not None:
        raise stopped
    return writing.exception()


def _write(copy: Copy, write_end: int) -> None:
    """Write the copy and close the pipe's end. On a thread of its own."""
    try:
        copy.write_to(write_end)
    finally:
        os.close(write_end)
