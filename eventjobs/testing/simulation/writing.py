"""The coordinator's writer without a thread: it works when the simulated disk has had its time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from eventjobs.coordinator.writer import Steps
from eventjobs.testing.simulation.disk import Disk, Hung


class InlineWriter:
    """Takes what waits after each commit's time, and feeds it to the writer's steps on the event loop."""

    def __init__(self, disk: Disk, steps: Callable[[], Steps]) -> None:
        self._disk = disk
        self._loop = asyncio.get_running_loop()
        self._items: deque[object] = deque()
        self._steps = steps()
        self._waits = next(self._steps)
        self._turn_is_set = self._hangs = False
        self._ended = asyncio.Event()

    def put(self, item: object) -> None:
        """Have it worked on with the next group."""
        self._items.append(item)
        self._set_turn()

    async def ended(self) -> None:
        """Wait until the steps have come to their end."""
        await self._ended.wait()

    def _set_turn(self) -> None:
        if not self._turn_is_set and not self._hangs:
            self._turn_is_set = True
            self._loop.call_later(self._disk.latency(), self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        while self._items or not self._waits:
            try:
                self._waits = self._steps.send(self._items.popleft() if self._items else None)
            except StopIteration:
                self._ended.set()
                return
            except Hung:
                self._hangs = True
                return
