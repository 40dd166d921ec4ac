"""Long-polling workers that found nothing, and who of them is woken when a job becomes available."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from eventjobs.coordinator.effects import Lane


class Waiter:
    """One waiting lease request. `woken_for` is the lane it was last woken for and has not tried yet."""

    def __init__(self, queues: Iterable[str] | None, kinds: Iterable[str] | None) -> None:
        self._queues = None if queues is None else frozenset(queues)
        self._kinds = None if kinds is None else frozenset(kinds)
        self._wake = asyncio.Event()
        self.woken_for: Lane | None = None

    def wants(self, lane: Lane) -> bool:
        queue, kind = lane
        return (self._queues is None or queue in self._queues) and (self._kinds is None or kind in self._kinds)

    def wake(self, lane: Lane | None) -> None:
        """Wake it for a lane, or (None) because waiting is over."""
        self.woken_for = lane
        self._wake.set()

    def about_to_try(self) -> Lane | None:
        """Its next attempt covers what it was woken for, which is returned."""
        woken_for, self.woken_for = self.woken_for, None
        self._wake.clear()
        return woken_for

    async def woken(self, timeout: float) -> bool:
        """Whether it is woken within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True


class Waiters:
    """All waiting lease requests, the one that has waited longest first.

    A waiter is in here before its first attempt, so nothing that becomes available in between is missed. One job wakes
    one waiter; a waiter that leaves without using its wake hands it to the next.
    """

    def __init__(self) -> None:
        self._waiting: dict[Waiter, None] = {}

    def add(self, waiter: Waiter) -> None:
        self._waiting[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Take it out; a wake it did not use goes to the next in line."""
        self._waiting.pop(waiter, None)
        if waiter.woken_for is not None:
            self.offer({waiter.woken_for: 1})

    def offer(self, available: Mapping[Lane, int]) -> None:
        """Wake as many waiters as there are jobs, lane by lane."""
        for lane, count in available.items():
            for waiter in self._waiting:
                if count == 0:
                    break
                if waiter.woken_for is None and waiter.wants(lane):
                    waiter.wake(lane)
                    count -= 1

    def offer_all(self, lanes: Iterable[Lane]) -> None:
        """Wake everyone who wants one of the lanes: an unknown number of jobs came due."""
        self.offer({lane: len(self._waiting) for lane in lanes})

    def wake_all(self) -> None:
        """End all waiting."""
        for waiter in self._waiting:
            waiter.wake(None)
