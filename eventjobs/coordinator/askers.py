"""Who asked for jobs lately, and for which: what tells a job that is waiting its turn from one that nobody wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from eventjobs.coordinator.effects import Lane
from eventjobs.domain.limits import MICROSECONDS

REMEMBERED_SECONDS = 300
"""How long a request for jobs is remembered: many times as long as a worker's long-poll."""
REMEMBERED_MAX = 1_000
"""Different requests that are remembered; of more, those are forgotten that came longest ago."""


@frozen
class Asked:
    """A worker's request for jobs: of these queues and kinds (None: any), last made at `time` (microseconds)."""

    worker: str
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    time: int

    def wants(self, lane: Lane) -> bool:
        """Whether it asks for the jobs of a queue and kind."""
        queue, kind = lane
        return (self.queues is None or queue in self.queues) and (self.kinds is None or kind in self.kinds)


class Askers:
    """The requests of the last minutes, each worker and what it asks for once. In memory alone: a restart forgets."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.since = now()
        """From when on requests are known, if that is not as long ago as they are remembered."""
        self._times: dict[tuple[str, tuple[str, ...] | None, tuple[str, ...] | None], int] = {}

    def note(self, worker: str, queues: Sequence[str] | None, kinds: Sequence[str] | None) -> None:
        """Remember a request that is made now."""
        key = (worker, None if queues is None else tuple(queues), None if kinds is None else tuple(kinds))
        self._times.pop(key, None)
        self._times[key] = self._now()
        if len(self._times) > REMEMBERED_MAX:
            del self._times[next(iter(self._times))]

    def lately(self) -> list[Asked]:
        """The requests that are remembered, the latest first."""
        oldest = self._now() - REMEMBERED_SECONDS * MICROSECONDS
        self.since = max(self.since, oldest)
        for key in [key for key, time in self._times.items() if time < oldest]:
            del self._times[key]
        return [Asked(*key, time) for key, time in reversed(self._times.items())]
