"""Who asked for jobs lately, and for which: what tells a job that is waiting its turn from one that nobody wants."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from attrs import evolve, frozen

from eventjobs.coordinator.effects import Lane
from eventjobs.domain.events import Event
from eventjobs.domain.job import Job
from eventjobs.domain.limits import MICROSECONDS, NO_KIND

REMEMBERED_SECONDS = 300
"""How long a request for jobs is remembered: many times as long as a worker's long-poll."""
REMEMBERED_MAX = 1_000
"""Workers that are remembered; of more, those are forgotten whose request came longest ago."""
PRESENT_SECONDS = 15
"""How long after the end of its request a worker is still taken to be there: it pauses, or its next is on the way."""


@frozen
class Asked:
    """A worker's last request for jobs: of these queues and kinds (None: any), made at `time` and waiting until
    `until`. Unless it may ask again, `full_until` is the end of the leases that left it no room for more jobs.
    Times are in microseconds."""

    worker: str
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    time: int
    until: int
    full_until: int = 0

    def wants(self, lane: Lane) -> bool:
        """Whether it asks for the jobs of a queue and kind."""
        queue, kind = lane
        return (self.queues is None or queue in self.queues) and (self.kinds is None or kind in self.kinds)

    def full(self, now: int) -> bool:
        """Whether it was given as many jobs as it asked for and holds them all: it asks again when one ends."""
        return now < self.full_until

    def present(self, now: int) -> bool:
        """Whether it waits for jobs, or is about to ask for more."""
        return not self.full_until and now <= self.until + PRESENT_SECONDS * MICROSECONDS


class Askers:
    """The last request of each worker, of the last minutes. In memory alone: a restart forgets."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.since = now()
        """From when on requests are known, if that is not as long ago as they are remembered."""
        self._asked: dict[str, Asked] = {}
        self._full: dict[str, int] = {}

    def note(self, worker: str, queues: Sequence[str] | None, kinds: Sequence[str] | None, wait: int = 0) -> None:
        """Remember a request that is made now and waits for so many microseconds, in place of the worker's last one. A
        request for no kind is how a worker says goodbye."""
        self._forget(worker)
        if kinds is not None and list(kinds) == [NO_KIND]:
            return
        now = self._now()
        names = (None if queues is None else tuple(queues), None if kinds is None else tuple(kinds))
        self._asked[worker] = Asked(worker, *names, now, now + wait)
        if len(self._asked) > REMEMBERED_MAX:
            self._forget(next(iter(self._asked)))

    def filled(self, worker: str, jobs: Iterable[Job]) -> None:
        """The worker was given all the jobs that it has room for."""
        if worker in self._asked:
            self._full[worker] = max(job.lease.expires_at for job in jobs)

    def saw(self, appended: Iterable[tuple[Job | None, Event, Job]], silent: Container[str]) -> None:
        """Jobs changed: of a full worker, a lease was renewed, or has ended. Of the `silent` one ran out: they are not
        about to ask again."""
        if not self._full:
            return
        for before, _, after in appended:
            if before is None or before.lease is None or before.lease.worker not in self._full:
                continue
            worker = before.lease.worker
            if after.lease is None:
                if worker not in silent:
                    del self._full[worker]
            else:
                self._full[worker] = max(self._full[worker], after.lease.expires_at)

    def lately(self) -> list[Asked]:
        """The requests that are remembered, the latest first."""
        now = self._now()
        oldest = now - REMEMBERED_SECONDS * MICROSECONDS
        self.since = max(self.since, oldest)
        for asked in list(self._asked.values()):
            if asked.time < oldest and self._full.get(asked.worker, 0) <= now:
                self._forget(asked.worker)
        return [evolve(asked, full_until=self._full.get(asked.worker, 0)) for asked in reversed(self._asked.values())]

    def _forget(self, worker: str) -> None:
        self._asked.pop(worker, None)
        self._full.pop(worker, None)
