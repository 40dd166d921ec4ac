"""A stage for the coordinator's parts: an engine that does what it is told, and time that jumps."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.group_commit import GroupCommit
from eventjobs.coordinator.replies import Enqueued
from eventjobs.domain.job import Job
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import NOTHING, Needs, Reader, Transaction
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing import virtual_time
from eventjobs.testing.virtual_time import LoopClock

REAL_SECONDS_MAX = 20.0


class StagedEngine:
    """A memory engine that does what it is told.

    Commits wait at the gate while it is closed, and then meet the next of `failures`: None, or an error that is
    raised instead of the commit (after it with `kept`). `begin_failures` are met by begin. `calls` lists what was
    called, in order, and `needs` what begin was told. `read_failure` is raised by reading.
    """

    shared = False

    def __init__(self) -> None:
        self._engine = MemoryEngine(READ_MODELS)
        self.failures: deque[Exception | None] = deque()
        self.begin_failures: deque[Exception | None] = deque()
        self.read_failure: Exception | None = None
        self.kept = False
        self.calls: list[str] = []
        self.needs: list[Needs] = []
        self._gate, self._at_gate = threading.Event(), threading.Event()
        self._gate.set()

    def close_gate(self) -> None:
        """From now on commits wait."""
        self._at_gate.clear()
        self._gate.clear()

    def open_gate(self) -> None:
        self._gate.set()

    async def somebody_at_gate(self) -> None:
        """Wait until a commit waits at the closed gate."""
        assert await asyncio.to_thread(self._at_gate.wait, REAL_SECONDS_MAX)

    def begin(self, needs: Needs = NOTHING) -> Transaction:
        self.calls.append("begin")
        self.needs.append(needs)
        if self.begin_failures and (failure := self.begin_failures.popleft()) is not None:
            raise failure
        return self._engine.begin()

    def commit(self) -> None:
        self.calls.append("commit")
        self._at_gate.set()
        assert self._gate.wait(REAL_SECONDS_MAX)
        failure = self.failures.popleft() if self.failures else None
        if failure is None or self.kept:
            self._engine.commit()
        else:
            self._engine.abort()
        if failure is not None:
            raise failure

    def abort(self) -> None:
        self.calls.append("abort")
        self._engine.abort()

    @contextmanager
    def read(self) -> Iterator[Reader]:
        assert "close" not in self.calls, "the store is read after it was closed"
        if self.read_failure is not None:
            raise self.read_failure
        with self._engine.read() as reader:
            yield reader

    @property
    def room(self) -> bool:
        return self._engine.room

    @room.setter
    def room(self, room: bool) -> None:
        self._engine.room = room

    def room_for_new_work(self, size: int = 0) -> bool:
        return self._engine.room_for_new_work(size)

    def maintain(self) -> None:
        self.calls.append("maintain")

    def close(self) -> None:
        self.calls.append("close")


class Stage:
    """An engine, the parts of a coordinator made on it, and short names for what a scene does."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.engine = StagedEngine()
        self.clock = LoopClock(b.START)
        self.committed: list[Effects] = []
        self.fatal: list[BaseException] = []
        self.errors: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.coordinator: Coordinator | None = None
        self.commits: GroupCommit | None = None
        self._ids = itertools.count(1)

    def group_commit(self) -> GroupCommit:
        """A writer alone."""
        self.commits = GroupCommit(self.engine, self.committed.append, self.fatal.append)
        self.loop.stand_still_while(lambda: self.commits.pending > 0)
        return self.commits

    async def start(self, **more: Any) -> Coordinator:
        """A whole coordinator."""
        self.coordinator = await Coordinator.start(self.engine, self.clock, **more)
        self.loop.stand_still_while(lambda: self.coordinator.pending > 0)
        return self.coordinator

    async def enqueue(self, **members: Any) -> Job:
        (reply,) = await self.enqueue_all(members)
        return reply.job

    async def enqueue_all(self, *jobs: dict[str, Any]) -> list[Enqueued]:
        now = self.clock.now()
        return await self.coordinator.enqueue([b.enqueue(b.an_id(next(self._ids)), now=now, **job) for job in jobs])

    async def lease(
        self, *, queues=None, kinds=None, max_jobs: int = 1, wait: float = 0, still_wanted=lambda: True, **members: Any
    ) -> list[Job]:
        command = b.lease(now=self.clock.now(), **members)
        return await self.coordinator.lease(command, queues, kinds, max_jobs, b.seconds(wait), still_wanted)

    def poll(self, *, wait: float = 60, **members: Any) -> asyncio.Task[list[Job]]:
        """A long-poll in a task of its own."""
        return self.loop.create_task(self.lease(wait=wait, **members))

    async def execute(self, build: Callable, *arguments: Any, **members: Any) -> Any:
        (outcome,) = await self.coordinator.execute([build(*arguments, now=self.clock.now(), **members)])
        return outcome

    async def settle(self) -> None:
        """Let everything happen that can happen at this moment (a microsecond passes)."""
        await asyncio.sleep(1e-6)

    def records(self) -> list:
        with self.engine._engine.read() as reader:
            return reader.records(0, 1_000_000)

    async def end(self) -> None:
        self.engine.open_gate()
        if self.coordinator is not None and "close" not in self.engine.calls:
            await self.coordinator.stop()
        if self.commits is not None:
            await self.commits.close()


@pytest.fixture
def play() -> Callable[[Callable[[Stage], Coroutine[Any, Any, None]]], None]:
    """Runs scene(stage) in virtual time, ends what it made, and holds that nothing went wrong unseen."""

    def run(scene: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            stage = Stage()
            try:
                await scene(stage)
            finally:
                await stage.end()
            await asyncio.sleep(100 * 86_400)
            stage.coordinator = None
            gc.collect()  # a task that failed and that nobody asked says so when it goes
            assert stage.errors == [], "an error that nobody was told of"

        virtual_time.run(main())

    return run
