"""A wake-up call by the coordinator's clock. Set for the earliest time asked for, it costs nothing until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from eventjobs.coordinator.clock import PACE_MAX, Clock
from eventjobs.domain.limits import MICROSECONDS

SLEEP_SECONDS_MAX = 3_600.0
"""One timer of the event loop; longer waits are made of several."""
SLEEP_SECONDS_MIN = 0.001
NEAR_SECONDS = 1.0
"""What is nearer is slept in one piece. The clock may run faster than the loop's: from further away the alarm looks
again before the earliest moment at which the time can have come, so it is never late by more than half of this."""


class Alarm:
    """Calls `ring` once when the clock reaches the earliest time it was set for; `ring` sets it again if need be."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock, self._ring = clock, ring
        self._time: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, time: int | None) -> None:
        """Ring at `time` (microseconds) at the latest; None asks for nothing."""
        if time is None or (self._time is not None and self._time <= time):
            return
        self.stop()
        self._time = time
        self._sleep()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._time = self._timer = None

    def _sleep(self) -> None:
        left = (self._time - self._clock.now()) / MICROSECONDS
        seconds = left if left <= NEAR_SECONDS else min(left / PACE_MAX, SLEEP_SECONDS_MAX)
        self._timer = asyncio.get_running_loop().call_later(max(seconds, SLEEP_SECONDS_MIN), self._awake)

    def _awake(self) -> None:
        if self._clock.now() < self._time:
            return self._sleep()
        self.stop()
        self._ring()
