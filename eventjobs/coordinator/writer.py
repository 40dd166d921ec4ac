"""The writer: who takes the steps of writing. In a server that is a thread of its own.

Steps are a generator that is sent items, one after another. What it yields says whether the next is worth waiting for:
if not, and there is none yet, it is sent None. Another writer may take the same steps in another way, as long as it
takes one at a time and in order.
"""

from __future__ import annotations

import asyncio
import queue
import threading
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


class WriterThread:
    """Takes steps on a thread of its own, until they end."""

    def __init__(self, steps: Callable[[], Steps]) -> None:
        self._items: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(steps(),), name="eventjobs-writer", daemon=True)
        self._thread.start()

    def put(self, item: object) -> None:
        self._items.put(item)

    async def ended(self) -> None:
        await asyncio.to_thread(self._thread.join)

    def _run(self, steps: Steps) -> None:
        item = None
        while True:
            try:
                waits = steps.send(item)
            except StopIteration:
                return
            item = self._next(waits)

    def _next(self, waits: bool) -> object | None:
        try:
            return self._items.get(block=waits)
        except queue.Empty:
            return None
