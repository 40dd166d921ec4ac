"""Leasing order over the ready index: which waiting jobs are due, best first.

A lane is a queue and a kind. Within a lane the index is sorted by priority, then run_at, then position, so the jobs
of one priority that are due come before those that are not: at the first job of the future the walk skips to the
next priority. A lease touches each lane it asks for at most once per priority in use, plus once per job it takes,
however many jobs wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

from eventjobs.domain.projection import Rows
from eventjobs.store.indexes import READY
from eventjobs.store.keys import NUMBER_MAX, NUMBER_MIN

Place = tuple[int, int, int, str]
"""(-priority, run_at, enqueue position, job id): sorts in the order of leasing."""


def due_places(
    rows: Rows, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int
) -> list[Place]:
    """Up to `limit` places of due jobs in the asked queues and kinds (None: any), best first."""
    lanes = [_due_in_lane(rows, queue, kind, now) for queue, kind in _lanes(rows, queues, kinds)]
    return list(islice(lanes[0] if len(lanes) == 1 else heapq.merge(*lanes), limit))


def _due_in_lane(rows: Rows, queue: str, kind: str, now: int) -> Iterator[Place]:
    beyond = None
    while True:
        for key, job_id in rows.rows(READY, (queue, kind), beyond):
            if key[3] > now:
                beyond = (queue, kind, key[2], NUMBER_MAX, NUMBER_MAX)
                break
            yield key[2], key[3], key[4], job_id.decode()
        else:
            return


def _lanes(rows: Rows, queues: Sequence[str] | None, kinds: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """The lanes with waiting jobs among those asked for, found by skipping from lane to lane."""
    for queue in sorted(set(queues)) if queues is not None else _queues(rows):
        if kinds is not None:
            for kind in sorted(set(kinds)):
                if _first(rows, (queue, kind)) is not None:
                    yield queue, kind
            continue
        found = _first(rows, (queue,))
        while found is not None:
            yield queue, found[1]
            found = _first(rows, (queue,), (queue, found[1], NUMBER_MAX, NUMBER_MAX, NUMBER_MAX))


def _queues(rows: Rows) -> Iterator[str]:
    found = _first(rows, ())
    while found is not None:
        yield found[0]
        found = _first(rows, (), (found[0], _LAST_NAME, NUMBER_MIN, NUMBER_MIN, NUMBER_MIN))


_LAST_NAME = "\x7f"
"""Sorts after every name."""


def _first(rows: Rows, prefix: tuple[str, ...], beyond: tuple | None = None) -> tuple | None:
    return next((key for key, _ in rows.rows(READY, prefix, beyond)), None)
