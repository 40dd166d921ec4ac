"""Many coordinators on one database, simulated: how long a command takes, and what the append lock carries.

Commands arrive at random at each of the coordinators. A coordinator takes what waits into one group, waits for its turn
at the append lock, and holds it for `fixed + each x records`; then everybody in the group has an answer, and it takes
what has come meanwhile. That is decision 0012, and turns.py measures the two figures on a real database. Everything
else (parsing, HTTP, locking rows) is done beside the turns of others and takes no part here: the simulation shows the
one thing that adding coordinators cannot make faster.

While the lock carries the load, all the coordinators take one turn each in about `coordinators x fixed / (1 - load)`,
where load is `each x records a second`: `round_seconds`. The simulation is held against it by a test.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections import deque
from dataclasses import dataclass

from eventjobs.coordinator.group_commit import GROUP_REQUESTS_MAX


@dataclass(frozen=True)
class Lock:
    """What a turn costs, in seconds."""

    fixed: float
    each: float

    def held(self, records: int) -> float:
        return self.fixed + self.each * records

    def load(self, records_a_second: float) -> float:
        """The part of the time that goes into records, whatever the groups are."""
        return self.each * records_a_second

    def round_seconds(self, coordinators: int, records_a_second: float) -> float:
        """How long it takes until each of the busy coordinators had a turn; endless from a load of 1 on."""
        load = self.load(records_a_second)
        return coordinators * self.fixed / (1 - load) if load < 1 else float("inf")


@dataclass(frozen=True)
class Found:
    """Seconds from a request's arrival to its answer, the requests of a group, and the part of the time that the lock
    was held. `kept_up` is whether as much was answered as arrived."""

    median: float
    late: float
    group: float
    held: float
    kept_up: bool


class Fleet:
    """Coordinators in line for one lock, under requests of so many records each that come at random."""

    def __init__(self, lock: Lock, coordinators: int, requests_a_second: float, records: int, seed: int) -> None:
        self._lock, self._records, self._chance = lock, records, random.Random(seed)
        self._rate = requests_a_second / coordinators
        self._waiting: list[deque[float]] = [deque() for _ in range(coordinators)]
        self._busy = [False] * coordinators
        self._line: deque[tuple[int, list[float]]] = deque()
        """Coordinators with the groups they took, in the order of their turns; the first holds the lock."""
        self._over = 0.0
        """When the first one's turn ends."""
        self.held, self.groups, self.spent = 0.0, [], []

    def run(self, seconds: float) -> float:
        """Let requests come for so long, and answer all of them; when the last one is answered."""
        coming = [(self._gap(), number) for number in range(len(self._waiting))]
        heapq.heapify(coming)
        while coming or self._line:
            if self._line and (not coming or self._over <= coming[0][0]):
                self._turn_over()
                continue
            at, number = heapq.heappop(coming)
            if at >= seconds:
                continue
            heapq.heappush(coming, (at + self._gap(), number))
            self._waiting[number].append(at)
            if not self._busy[number]:
                self._queue_up(number, at)
        return self._over

    def _gap(self) -> float:
        return self._chance.expovariate(self._rate)

    def _queue_up(self, number: int, now: float) -> None:
        """Take what waits into a group, whose size is settled before its turn comes."""
        waiting = self._waiting[number]
        group = [waiting.popleft() for _ in range(min(GROUP_REQUESTS_MAX, len(waiting)))]
        self._busy[number] = True
        self._line.append((number, group))
        if len(self._line) == 1:
            self._begin(now)

    def _begin(self, now: float) -> None:
        took = self._lock.held(self._records * len(self._line[0][1]))
        self._over, self.held = now + took, self.held + took

    def _turn_over(self) -> None:
        """The first in line has committed and answers; the next one begins."""
        now = self._over
        number, group = self._line.popleft()
        self.spent.extend(now - since for since in group)
        self.groups.append(len(group))
        self._busy[number] = False
        if self._line:
            self._begin(now)
        if self._waiting[number]:
            self._queue_up(number, now)


def simulate(
    lock: Lock, coordinators: int, requests_a_second: float, records: int, seconds: float = 10.0, seed: int = 1
) -> Found:
    """A fleet under load for so many seconds. The same seed gives the same figures."""
    fleet = Fleet(lock, coordinators, requests_a_second, records, seed)
    ended = max(seconds, fleet.run(seconds))
    return Found(
        median=statistics.median(fleet.spent),
        late=statistics.quantiles(fleet.spent, n=100)[-1],
        group=statistics.mean(fleet.groups),
        held=fleet.held / ended,
        kept_up=ended < seconds * 1.1,
    )
