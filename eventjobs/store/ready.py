"""Leasing order over the ready index: which waiting jobs are due, best first.

A lane is a queue and a kind. Within a lane the index is sorted by priority, then run_at, then position, so the jobs
of one priority that are due come before those that are not: at the first job of the future the walk skips to the
next priority. A lease looks at the head of each lane it asks for, at most once per priority in use, and takes one
more step for each job, however many jobs wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile

from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Rows
from eventjobs.store.indexes import READY
from eventjobs.store.keys import NUMBER_MAX, NUMBER_MIN

_FIRST = (NUMBER_MIN, NUMBER_MIN, NUMBER_MIN)
"""What comes before every job of a lane."""

Place = tuple[int, int, int, str]
"""(-priority, run_at, enqueue position, job id): sorts in the order of leasing, no two alike."""


def due_places(rows: Rows, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int) -> Iterator[Place]:
    """The places of due jobs in the asked queues and kinds (None: any), best first, found as they are asked for."""
    lanes: list[tuple[Place, Iterator[Place]]] = []
    for key, job_id in _heads(rows, queues, kinds):
        if key[3] <= now:
            lanes.append((_place(key, job_id), _due_beyond(rows, key, now)))
            continue
        others = _due_beyond(rows, _after_priority(key), now)
        if (first := next(others, None)) is not None:
            lanes.append((first, others))
    heapify(lanes)
    while lanes:
        best, others = lanes[0]
        yield best
        if (following := next(others, None)) is None:
            heappop(lanes)
        else:
            heapreplace(lanes, (following, others))


def places_ahead(
    rows: Rows, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
) -> dict[tuple[str, str], int]:
    """How many due jobs of the wanted lanes come before a waiting job, by lane; at most `limit` are counted."""
    place = (-job.spec.priority, job.run_at, job.spec.position, job.id)
    counts: dict[tuple[str, str], int] = {}
    for key, _ in rows.heads(READY, 2):
        lane = key[:2]
        if not wanted(lane):
            continue
        before = takewhile(lambda other: other < place, _due_beyond(rows, (*lane, *_FIRST), now))
        if count := sum(1 for _ in islice(before, limit)):
            counts[lane] = count
            limit -= count
        if not limit:
            break
    return counts


def _heads(rows: Rows, queues: Sequence[str] | None, kinds: Sequence[str] | None) -> Iterator[tuple[Key, bytes]]:
    """The first row of each lane with waiting jobs among those asked for."""
    if kinds is None and queues is None:
        yield from rows.heads(READY, 2)
        return
    for queue in dict.fromkeys(queues) if queues is not None else (key[0] for key, _ in rows.heads(READY, 1)):
        if kinds is None:
            yield from rows.heads(READY, 2, (queue,))
        else:
            yield from _heads_of_kinds(rows, queue, sorted(set(kinds)))


def _heads_of_kinds(rows: Rows, queue: str, kinds: list[str]) -> Iterator[tuple[Key, bytes]]:
    """The same for some kinds of one queue, given in order. What is there and what is asked for leap over each other,
    so that it takes no more seeks than the fewer of them."""
    at = 0
    while at < len(kinds):
        found = next(rows.rows(READY, (queue,), (queue, kinds[at], NUMBER_MIN, NUMBER_MIN, NUMBER_MIN)), None)
        if found is None:
            return
        kind = found[0][1]
        at = bisect_left(kinds, kind)
        if at < len(kinds) and kinds[at] == kind:
            yield found
            at += 1


def _due_beyond(rows: Rows, beyond: Key, now: int) -> Iterator[Place]:
    """The due jobs of a lane that come after a key of it."""
    lane = beyond[:2]
    while True:
        for key, job_id in rows.rows(READY, lane, beyond):
            if key[3] > now:
                beyond = _after_priority(key)
                break
            yield _place(key, job_id)
        else:
            return


def _after_priority(key: Key) -> Key:
    """A key beyond all of the key's lane and priority."""
    return (*key[:3], NUMBER_MAX, NUMBER_MAX)


def _place(key: Key, job_id: bytes) -> Place:
    return key[2], key[3], key[4], job_id.decode()
