"""The writer: who takes the steps of writing. In a server that is a thread of its own.

Steps are a generator that is sent items, one after another. What it yields says whether the next is worth waiting for:
if not, and there is none yet, it is sent None. Another writer may take the same steps in another way, as long as it
takes one at a time and in order.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Protocol

Steps = Generator[bool, object, None]


class Writer(Protocol):
    """Takes steps with what is put in."""

    def put(self, item: object) -> None:
        """Have the item sent to the steps when its turn comes. Does not wait."""

    async def ended(self) -> None:
        """Wait until the steps have come to their end."""


MakeWriter = Callable[[Callable[[], Steps]], Writer]
"""Makes a writer that takes the steps a function gives."""


class Patience:
    """How long the writer waits for a group to fill before it commits it.

    Those who were answered by the last commit tend to ask again at once. Without waiting for them they would miss the
    next commit, and the requests would fall into two halves that take turns: two flushes for what one could do. So the
    writer expects as many requests as lately took part, and waits for them for a part of the time that the last commit
    took. A caller who is alone never waits.
    """

    PART = 0.5
    LONGEST_SECONDS = 0.002

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected, self._seconds = 1, 0.0
        self._taken, self._began = 0, 0.0

    def took(self) -> None:
        """An item was taken into the group."""
        if self._taken == 0:
            self._began = self._clock()
        self._taken += 1

    def left(self) -> float:
        """Seconds to wait for more; 0 when the group is as large as can be expected."""
        if self._taken >= self._expected:
            return 0.0
        return max(0.0, self._began + self._seconds - self._clock())

    def committed(self, seconds: float, waiting: int) -> None:
        """The group was committed, which took so long; so many others wait by now."""
        self._expected = self._taken + waiting
        self._seconds = min(self.LONGEST_SECONDS, self.PART * seconds)
        self._taken = 0


class WriterThread:
    """Takes steps on a thread of its own, until they end."""

    def __init__(self, steps: Callable[[], Steps]) -> None:
        self._items: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._patience = Patience()
        self._thread = threading.Thread(target=self._run, args=(steps(),), name="eventjobs-writer", daemon=True)
        self._thread.start()

    def put(self, item: object) -> None:
        self._items.put(item)

    async def ended(self) -> None:
        await asyncio.to_thread(self._thread.join)

    def _run(self, steps: Steps) -> None:
        item = None
        while True:
            began = time.monotonic()
            try:
                waits = steps.send(item)
            except StopIteration:
                return
            if item is None:
                self._patience.committed(time.monotonic() - began, self._items.qsize())
            item = self._next(waits)

    def _next(self, waits: bool) -> object | None:
        """The next item; None when there is none and a group is ready to be committed."""
        try:
            item = self._items.get(block=waits)
        except queue.Empty:
            item = self._late()
        if item is not None:
            self._patience.took()
        return item

    def _late(self) -> object | None:
        left = self._patience.left()
        if not left:
            return None
        try:
            return self._items.get(timeout=left)
        except queue.Empty:
            return None
