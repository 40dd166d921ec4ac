"""Long-polling workers that found nothing, and who of them is woken when a job becomes available."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping

from eventjobs.coordinator.effects import Lane

Choice = tuple[frozenset[str] | None, frozenset[str] | None]
"""The queues and the kinds that a request is content with; None means any."""


class Waiter:
    """One waiting lease request of a worker. `woken_for` is what it was last woken for and has not tried yet: a lane,
    or all that it is content with."""

    def __init__(self, worker: str, queues: Iterable[str] | None, kinds: Iterable[str] | None) -> None:
        self.worker = worker
        self.choice: Choice = (
            None if queues is None else frozenset(queues),
            None if kinds is None else frozenset(kinds),
        )
        self._wake = asyncio.Event()
        self.woken_for: Lane | Choice | None = None

    def wants(self, what: Lane | Choice) -> bool:
        """Whether it takes jobs of the lane, or whatever is found by this choice."""
        if what == self.choice:
            return True
        queue, kind = what
        queues, kinds = self.choice
        return (queues is None or queue in queues) and (kinds is None or kind in kinds)

    def wake(self, what: Lane | Choice | None) -> None:
        """Wake it for a lane or its choice, or (None) because waiting is over."""
        self.woken_for = what
        self._wake.set()

    def look_again(self) -> None:
        """Wake it without a job: something else about its request has changed."""
        self._wake.set()

    def about_to_try(self) -> Lane | Choice | None:
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

    def offer(self, available: Mapping[Lane | Choice, int], silent: Container[str] = ()) -> None:
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

    def probe(self) -> None:
        """Wake one for each choice: there may be jobs that nobody was told of. One that gets some hands its wake on."""
        self.offer(dict.fromkeys([waiter.choice for waiter in self._waiting], 1))

    def wake_all(self) -> None:
        """End all waiting."""
        for waiter in self._waiting:
            waiter.wake(None)
