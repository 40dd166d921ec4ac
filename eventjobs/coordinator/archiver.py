"""The archiver: moves the oldest records of the log out of the live store, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from eventjobs.coordinator.clock import Clock
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.store.contract import SealsLog, StorageFull, StoreError

ROUND_SECONDS = 60.0
"""How often it looks for records that have become old."""
PAUSE_SECONDS = 0.005
"""Between two pieces of work, so that requests get the interpreter, and the disk."""

log = structlog.get_logger("eventjobs.archiver")


class _Stopped(Exception):
    """The coordinator stops."""


class Archiver:
    """Seals what is older than `age` (microseconds), then has it taken out of the live store in small steps.

    `between` runs a function on the writer thread between two commits.
    """

    def __init__(
        self, store: SealsLog, age: int, clock: Clock, between: Callable[[Callable[[], bool]], Awaitable[bool]]
    ) -> None:
        self._store, self._age, self._clock, self._between = store, age, clock, between
        self._stopping = threading.Event()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the work at its next pause; nothing half-done is left behind."""
        self._stopping.set()
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._round()
            except _Stopped:
                return
            except (StorageFull, Unavailable) as error:
                log.warning("archive_put_off", reason=str(error))
            except UnknownOutcome:  # the coordinator ends
                return
            except StoreError as error:
                log.error("archive_failed", error=str(error))
            except Exception:
                log.exception("archive_failed")
            try:
                await asyncio.wait_for(self._wake.wait(), ROUND_SECONDS)
            except TimeoutError:
                continue

    async def _round(self) -> None:
        """Seal one segment after another, and take each out before the next is sealed."""
        sealed = True
        while sealed:
            sealed = await asyncio.to_thread(self._store.seal, self._clock.now() - self._age, self._pause)
            if sealed:
                log.info("log_sealed")
            while await self._between(self._store.empty):
                await asyncio.sleep(PAUSE_SECONDS)
                if self._stopping.is_set():
                    return

    def _pause(self) -> None:
        if self._stopping.wait(PAUSE_SECONDS):
            raise _Stopped
