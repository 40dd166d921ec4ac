"""The jobs a worker holds leases of, from the grant until their end is settled, and the slots that bound them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from attrs import define, field

from eventjobs.client.requests import Completion, Failure
from eventjobs.domain.limits import LEASE_JOBS_MAX
from eventjobs.worker.context import JobContext


@define(eq=False)
class Held:
    """A job this worker has, or had, the lease of.

    `outcome` is set once the handler has ended with something to send; from then on only the answer to that decides
    about the job. `duration` is the handler's, in seconds.
    """

    job: JobContext
    is_async: bool = True
    task: asyncio.Task | None = None
    outcome: Completion | Failure | None = None
    duration: float = 0.0

    @property
    def running(self) -> bool:
        """Whether the handler runs, or is about to."""
        return self.task is not None and not self.task.done()

    def cancel(self) -> None:
        """Tell the handler to stop: a thread sees it in `job.canceled`, a coroutine is canceled as well."""
        self.job.cancel()
        if self.is_async and self.task is not None:
            self.task.cancel()

    def abandon(self) -> None:
        """Wait for the handler no longer. A thread runs on by itself; what comes of it goes nowhere."""
        self.job.cancel()
        if self.task is not None:
            self.task.cancel()

    def describe(self) -> dict[str, object]:
        """What every log line about the job says."""
        job = self.job
        return {"job_id": job.id, "kind": job.kind, "queue": job.queue, "attempt": job.attempt, "token": job.token}


@define
class Holdings:
    """Held jobs by id and token, and the handlers that run.

    A handler whose lease was lost is no longer held, yet occupies its slot until it has really ended.
    """

    concurrency: int
    _held: dict[tuple[str, int], Held] = field(factory=dict)
    _running: dict[Held, None] = field(factory=dict)
    _moved: asyncio.Event = field(factory=asyncio.Event)

    def __iter__(self) -> Iterator[Held]:
        """Every held job, as of now."""
        return iter(tuple(self._held.values()))

    def __contains__(self, held: Held) -> bool:
        return self._held.get((held.job.id, held.job.token)) is held

    @property
    def running(self) -> tuple[Held, ...]:
        """The jobs whose handlers have not ended, held or lost, in the order in which they were started."""
        return tuple(self._running)

    @property
    def unsettled(self) -> tuple[Held, ...]:
        """The held jobs that have an outcome the coordinator has not acknowledged yet."""
        return tuple(held for held in self._held.values() if held.outcome is not None)

    @property
    def free_slots(self) -> int:
        """How many jobs can be taken now: as many as handlers can start, fewer when many outcomes wait to be sent."""
        return min(self.concurrency - len(self._running), 2 * self.concurrency - len(self._held), LEASE_JOBS_MAX)

    def add(self, held: Held) -> None:
        """A job was leased and its handler starts."""
        self._held[held.job.id, held.job.token] = held
        self._running[held] = None

    def remove(self, held: Held) -> None:
        """The lease is over: settled, released, or lost."""
        if held in self:
            del self._held[held.job.id, held.job.token]
            self._moved.set()

    def ended(self, held: Held) -> None:
        """The handler has ended; its slot is free."""
        self._running.pop(held, None)
        self._moved.set()

    async def changed(self) -> None:
        """Wait until a job is settled, released or lost, or a handler ends."""
        self._moved.clear()
        await self._moved.wait()
