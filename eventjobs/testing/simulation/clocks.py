"""Clocks that do as they like: a wall clock that jumps, beside a monotonic one that is the event loop's."""

from __future__ import annotations

import asyncio

from eventjobs.testing import builders as b

NANOSECONDS = 1_000_000_000


class MachineClocks:
    """The clocks of a machine, as sources for SlewedClock. The wall clock starts at `builders.START`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._start = loop.time()
        self._ahead = 0

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back if negative."""
        self._ahead += round(seconds * NANOSECONDS)

    def monotonic(self) -> int:
        """Nanoseconds since the machine started."""
        return round((self._loop.time() - self._start) * NANOSECONDS)

    def wall(self) -> int:
        """Nanoseconds since 1970, as far as this clock knows."""
        return b.START * 1_000 + self._ahead + self.monotonic()
