"""The rescuer: turns leases that ran out into events, down the same road as every other command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from eventjobs.coordinator.alarm import Alarm
from eventjobs.coordinator.clock import Clock
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.domain.limits import MICROSECONDS

SWEEP_JOBS = 500
"""Leases ended in one request to the writer, so that workers' requests get their turn in between."""
RETRY_AFTER = MICROSECONDS
"""After a sweep that could not be written (the disk is full), the next is tried this much later."""
RETRY_AFTER_FAILURE = 10 * MICROSECONDS
"""The same after a sweep that failed, on a damaged job row for instance: what ran out waits until that is mended."""
NOTHING_ENDED = MICROSECONDS // 20
"""After a sweep that found nothing to end: another coordinator is at it, or the store's clock is a little behind."""

GRACE_AFTER_OUTAGE = 6 * MICROSECONDS
"""What a worker takes to notice that the coordinator is back: its longest pause between two attempts, and a little."""

log = structlog.get_logger("eventjobs.rescuer")


class Rescuer:
    """Sleeps until the earliest expiry, then sweeps. `expire` ends up to so many leases that ran out by a time and says
    how many it were, `next_expiry` reads when the next one does."""

    def __init__(
        self,
        expire: Callable[[int, int], Awaitable[int]],
        clock: Clock,
        next_expiry: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._expire, self._clock, self._next_expiry = expire, clock, next_expiry
        self._alarm = Alarm(clock, self._start_sweep)
        self._sweep: asyncio.Task | None = None
        self.spared_until = 0
        """No lease is ended before this time, in microseconds."""

    async def begin(self) -> None:
        """Begin with what is in the store. Leases that ran out while no coordinator was there are let be for a moment,
        however it had ended: workers could not renew them, and those that finished meanwhile had nobody to tell. Where
        none ran out, none is."""
        expiry, now = await self._next_expiry(), self._clock.now()
        if expiry is not None and expiry <= now:
            self.spare()
        self.expect(expiry)

    def spare(self) -> None:
        """End no lease for a moment: there was an outage."""
        self.spared_until = self._clock.now() + GRACE_AFTER_OUTAGE

    def expect(self, expiry: int | None) -> None:
        """A lease may run out at this time."""
        if expiry is not None:
            self._alarm.set(max(expiry, self.spared_until))

    async def stop(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.gather(self._sweep, return_exceptions=True)
        self._alarm.stop()

    def _start_sweep(self) -> None:
        if self._sweep is None or self._sweep.done():
            self._sweep = asyncio.create_task(self._run())

    async def _run(self) -> None:
        expiry = None
        try:
            expiry = await self._next_expiry()
            while expiry is not None and max(expiry, self.spared_until) <= self._clock.now():
                ended = await self._expire(self._clock.now(), SWEEP_JOBS)
                expiry = await self._next_expiry()
                if ended == 0 and expiry is not None:
                    expiry = max(expiry, self._clock.now() + NOTHING_ENDED)
        except Unavailable as error:
            expiry = None
            if error.code != "shutting_down":  # else the next coordinator sweeps
                expiry = self._clock.now() + RETRY_AFTER
                log.warning("sweep_put_off", reason=str(error))
        except UnknownOutcome:
            expiry = None
        except Exception:
            expiry = self._clock.now() + RETRY_AFTER_FAILURE
            log.exception("sweep_failed")
        finally:
            self._sweep = None
            self.expect(expiry)
