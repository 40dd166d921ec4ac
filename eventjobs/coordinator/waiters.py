"""Long-polling workers that found nothing, and who of them is woken when a job becomes available."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping

from eventjobs.coordinator.effects import Lane


class Waiter:
    """One waiting lease request of a worker. `woken_for` is the lane it was last woken for and has not tried yet."""

    def __init__(self, worker: str, queues: Iterable[str] | None, kinds: Iterable[str] | None) -> None:
        self.worker = worker
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

    def look_again(self) -> None:
        """Wake it without a job: something else about its request has changed."""
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

    def offer(self, available: Mapping[Lane, int], silent: Container[str] = ()) -> None:
        """Wake as many waiters as there are jobs, lane by lane.

        `silent` are workers that let a lease run out just now: they are woken when nobody else waits. One that is
        frozen may have a request open, and would be given the job it did not run once more.
        """
        line = sorted(self._waiting, key=lambda waiter: waiter.worker in silent) if silent else self._waiting
        for lane, count in available.items():
            for waiter in line:
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
