"""The coordinator's clock: never backwards, and a wall clock that jumps costs it time, not attempts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

PACE_MAX = 1.5
"""How fast a clock may run, measured by the event loop's time."""


class Clock(Protocol):
    """Where "now" comes from: microseconds since 1970 UTC, never decreasing, never faster than PACE_MAX."""

    def now(self) -> int: ...


class SlewedClock:
    """Runs by the monotonic clock and is drawn towards the wall clock, never faster than 1.5 or slower than 0.5 times.

    It starts at the wall's time or at `not_before` (the newest time in the log), whichever is later. A wall clock set
    an hour ahead therefore does not end every lease at once, and one set back does not stop time: the difference is
    worked off within two hours.
    """

    def __init__(
        self,
        not_before: int = 0,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`wall` and `monotonic` give nanoseconds; `not_before` is in microseconds."""
        self._wall, self._monotonic = wall, monotonic
        self._last_tick = monotonic()
        self._now = max(wall(), not_before * 1_000)

    def now(self) -> int:
        tick = self._monotonic()
        elapsed = tick - self._last_tick
        gap = self._wall() - (self._now + elapsed)
        self._now += elapsed + max(-elapsed // 2, min(elapsed // 2, gap))
        self._last_tick = tick
        return self._now // 1_000
