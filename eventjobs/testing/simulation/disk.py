"""The disk: what a coordinator has committed, and the ways in which a commit can go wrong.

The store on it is the memory engine. It outlives the programs that open it: what was committed is there, what was not
is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import Content
from eventjobs.domain.events import Event, Record
from eventjobs.domain.job import Job
from eventjobs.projections import READ_MODELS
from eventjobs.store.codec import decode_record
from eventjobs.store.contract import NOTHING, Needs, OutcomeUnknown, Reader, StorageFull, Transaction
from eventjobs.store.memory import MemoryEngine, MemoryTransaction

USUAL_SECONDS = (0.0005, 0.003)
"""How long a commit takes."""
APPEND_FAILS, COMMIT_FAILS = 0.2, 0.6
"""How often a full disk has no room for a record, and how often none for a commit."""


class Hung(BaseException):
    """The commit never returned: its program was killed meanwhile. Not an Exception, as nobody could catch it."""


class Disk:
    """What is on disk, and what the disk is up to.

    `full`: what adds something may fail, at an append or at the commit. `nearly_full`: the engine has no room for new
    work. `fates` are what happens to the next commits that add something: "lost" and "kept" never return, and
    `on_hang` is told; "unknown lost" and "unknown kept" fail in a way that leaves the outcome open. `on_commit` is
    told the records of each commit.
    """

    def __init__(self, rng: Random, on_commit: Callable[[list[Record]], None], on_hang: Callable[[], None]) -> None:
        self._rng = rng
        self._on_commit, self._on_hang = on_commit, on_hang
        self.store = Store(self)
        self.full = self.nearly_full = False
        self.fates: deque[str] = deque()
        self.commit_seconds = USUAL_SECONDS

    @property
    def troubled(self) -> bool:
        """Whether it has a fault, or one is about to come."""
        return self.full or self.nearly_full or bool(self.fates) or self.commit_seconds != USUAL_SECONDS

    def calm_down(self) -> None:
        """Have no more faults."""
        self.full = self.nearly_full = False
        self.fates.clear()
        self.hurry()

    def hurry(self) -> None:
        """Take the usual time for commits."""
        self.commit_seconds = USUAL_SECONDS

    def latency(self) -> float:
        """How long the next commit takes."""
        return self._rng.uniform(*self.commit_seconds)

    def append_fails(self) -> bool:
        """Whether there is no room for an append."""
        return self.full and self._rng.random() < APPEND_FAILS

    def records(self, after: int = 0) -> list[Record]:
        """What is in the log beyond a position."""
        return self.store.decoded()[after:]

    def commit(self) -> None:
        """Commit what is open, or meet the fate that is due."""
        size = self.store.size
        adds = self.store.size_when_committed > size
        if adds and self.full and self._rng.random() < COMMIT_FAILS:
            self.store.abort()
            raise StorageFull("the simulated disk is full")
        fate = self.fates.popleft() if adds and self.fates else "done"
        if fate.endswith("lost"):
            self.store.abort()
        else:
            self.store.commit()
            if adds:
                self._on_commit(self.records(size))
        if fate.startswith("unknown"):
            raise OutcomeUnknown(f"the simulated disk failed during a commit ({fate})")
        if fate != "done":
            self._on_hang()
            raise Hung


class Store(MemoryEngine):
    """A memory engine whose disk may be full. Records are decoded once: lease requests are looked up in all of them."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(READ_MODELS)
        self._disk = disk
        self._decoded: list[Record] = []

    @property
    def size(self) -> int:
        """The size of the log."""
        return len(self._state.log)

    @property
    def size_when_committed(self) -> int:
        """The same with what is open."""
        return len(self._open.log)

    def begin(self, needs: Needs = NOTHING) -> MemoryTransaction:
        super().begin()
        return _Transaction(self._open, self._read_models, self._disk, self.decoded())

    def decoded(self) -> list[Record]:
        """Every record of the log."""
        self._decoded += map(decode_record, self._state.log[len(self._decoded) :])
        return self._decoded


class _Transaction(MemoryTransaction):
    """A transaction whose appends may find no room. `known` are the records that are committed."""

    def __init__(self, state: object, read_models: tuple, disk: Disk, known: list[Record]) -> None:
        super().__init__(state, read_models)
        self._disk, self._known = disk, known

    def records(self, after: int, limit: int) -> list[Record]:
        end = after + limit
        return self._known[after:end] + [
            decode_record(text) for text in self._state.log[max(after, len(self._known)) : end]
        ]

    def append(
        self, before: Job | None, event: Event, job_id: str, now: int, actor: Actor, content: Content | None
    ) -> Job:
        if self._disk.append_fails():
            raise StorageFull("the simulated disk has no room for a record")
        return super().append(before, event, job_id, now, actor, content)


class SimulatedEngine:
    """The store as one program has it open. See store.contract.Engine."""

    shared = False

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        disk.store.close()  # what the program before had begun is gone with it

    def begin(self, needs: Needs = NOTHING) -> Transaction:
        return self._disk.store.begin()

    def commit(self) -> None:
        self._disk.commit()

    def abort(self) -> None:
        self._disk.store.abort()

    def read(self) -> AbstractContextManager[Reader]:
        return self._disk.store.read()

    def copy(self) -> None:
        """There is no file to copy."""

    def room_for_new_work(self, size: int = 0) -> bool:
        return not self._disk.nearly_full

    def maintain(self) -> None:
        """Nothing to keep in order."""

    def close(self) -> None:
        self._disk.store.close()
