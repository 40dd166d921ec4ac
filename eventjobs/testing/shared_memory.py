"""A store in memory that several coordinators share, as they would a database: with a clock of its own, absences,
connections that break, and hints that may be lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import NOTHING, Away, Needs, Pulse, Reader, Transaction
from eventjobs.store.memory import MemoryEngine, MemoryTransaction


class SharedStore:
    """What all have in common. `clock` gives microseconds. While `away` nobody gets in; with `hints` off nobody hears
    of the others' commits."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.away = False
        self.hints = True
        self.content = MemoryEngine(READ_MODELS)
        self.writing = threading.Lock()
        self.engines: list[SharedMemoryEngine] = []

    def engine(self) -> SharedMemoryEngine:
        """One coordinator's access."""
        self.engines.append(SharedMemoryEngine(self))
        return self.engines[-1]

    def check(self) -> None:
        """Raises Away while the store is."""
        if self.away:
            raise Away("nobody answers there")


class _Transaction(MemoryTransaction):
    """A transaction at the store's time."""

    def __init__(self, transaction: MemoryTransaction, clock: Callable[[], int]) -> None:
        super().__init__(transaction._state, transaction._read_models)
        self._now = max(clock(), self.last_time)

    def now(self, wanted: int) -> int:
        return self._now


class SharedMemoryEngine:
    """See store.contract.SharedEngine. A commit meets the next of `failures`: None, or an error that is raised instead
    of the commit."""

    shared = True

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._moved: Callable[[], None] | None = None
        self.failures: deque[Exception | None] = deque()
        self.pulses = self.commits = 0

    def begin(self, needs: Needs = NOTHING) -> Transaction:
        self._store.check()
        self._store.writing.acquire()
        return _Transaction(self._store.content.begin(), self._store.clock)

    def commit(self) -> None:
        failure = self.failures.popleft() if self.failures else None
        try:
            if failure is not None:
                self._store.content.abort()
                raise failure
            self._store.content.commit()
        finally:
            self._store.writing.release()
        self.commits += 1
        for other in self._store.engines:
            if other is not self and other._moved is not None and self._store.hints:
                other._moved()

    def abort(self) -> None:
        self._store.content.abort()
        self._store.writing.release()

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self._store.check()
        with self._store.content.read() as view:
            yield view

    def room_for_new_work(self, size: int = 0) -> bool:
        return True

    def pulse(self) -> Pulse:
        self.pulses += 1
        self._store.check()
        with self._store.content.read() as view:
            return Pulse(view.head().size, self._store.clock())

    def watch(self, moved: Callable[[], None]) -> None:
        self._moved = moved

    def copy(self) -> None:
        """There is no file to copy."""

    def maintain(self) -> None:
        """Nothing to keep in order."""

    def close(self) -> None:
        self._moved = None
