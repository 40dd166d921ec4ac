"""Questions to the store from the event loop: at once where reading costs no wait, on a few threads where it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from eventjobs.coordinator.replies import StoreAway, Unavailable, UnknownOutcome
from eventjobs.store.contract import Away, Engine, Failed, Reader, TryAgain

READ_THREADS = 6
"""Views of a shared store that are read at the same time."""
READS_WAITING_MAX = 1_000
"""Beyond these the coordinator answers `overloaded`."""
STORE_FAILED = "the store failed during a commit and cannot be read until it is opened again"

T = TypeVar("T")
Question = Callable[[Reader], T]
"""Asked of one consistent view, and done with it when it returns. It may run on a thread, and touches nothing else."""


class Looking:
    """Asks questions of views of the engine. Raises Unavailable where a shared store cannot answer now, and
    UnknownOutcome when a commit has failed and the coordinator is about to end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(READ_THREADS, "eventjobs-reader") if engine.shared else None
        self._waiting = 0

    async def look(self, question: Question[T]) -> T:
        """The answer to a question."""
        if self._threads is None:
            return self._ask(question)
        if self._waiting >= READS_WAITING_MAX:
            raise Unavailable("overloaded", f"{self._waiting} requests are waiting to read")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, question)
        except Away as away:
            raise StoreAway(away) from away
        except TryAgain as error:
            raise Unavailable("overloaded", f"the store is too busy: {error}") from error
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Let the questions that were asked be answered. There are no more after this."""
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown)

    def _ask(self, question: Question[T]) -> T:
        try:
            with self._engine.read() as view:
                return question(view)
        except Failed as failed:
            raise UnknownOutcome(STORE_FAILED) from failed
