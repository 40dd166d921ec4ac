"""Statistics: how many jobs are where, what has happened, and how long jobs waited and ran. Counters, never scans.

`stats_jobs`, key (queue, kind, state): jobs in that state now. `stats_totals`, key (what, which): events by type
(deaths by cause instead), and for waits and runs the microseconds spent and the number of each length. A sum of
microseconds has room for 292,000 years. Beside them is kept what their past is made of: see stats_past.py.

A wait goes from the time a job could have been leased (its run_at, or its arrival if that came later) to the lease.
A run goes from the lease to the completion, failure or expiry that ended it; releases and cancels are not counted,
as they say nothing about how long the work takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache

from attrs import frozen

from eventjobs.domain import events as e
from eventjobs.domain.job import DeathCause, Job, State
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Rows, Table
from eventjobs.projections.stats_past import CARRIED, SNAPSHOTS, Past, kept

JOBS = Table("stats_jobs", (Part.NAME, Part.NAME, Part.NAME), counters=True)
TOTALS = Table("stats_totals", (Part.NAME, Part.NAME), counters=True)
COUNTERS = (JOBS, TOTALS)

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
"""Upper bounds (inclusive) of the histograms' buckets; one more bucket holds all that is longer."""

ENDS_OF_RUNS = (e.JobCompleted, e.AttemptFailed, e.JobDied, e.LeaseExpired)

MOVES_REMEMBERED = 4_096
"""How many pairs of lane and event have their changes kept ready; each takes some hundred bytes."""

_BOUNDS = [round(bound * MICROSECONDS) for bound in BOUNDS_SECONDS]
_BUCKETS = [str(bound) for bound in _BOUNDS] + ["longer"]


@frozen
class Histogram:
    """How many durations fell into each bucket. `counts` has one place more than `bounds_seconds`: the longer ones."""

    bounds_seconds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_seconds: float
    count: int

    @property
    def average_seconds(self) -> float | None:
        """None before the first."""
        return self.sum_seconds / self.count if self.count else None


@frozen
class Stats:
    """The numbers of the whole store. Inner dictionaries have all six states, `events` all types.

    `lease_expirations` counts each lease that ran out, the last one of a job too; `failed_attempts` each failure a
    worker reported, the last one of a job too; `died` each time a job was given up, for whatever cause.
    """

    jobs: dict[str, int]
    queues: dict[str, dict[str, int]]
    kinds: dict[str, dict[str, int]]
    average_wait_seconds: float | None
    average_run_seconds: float | None
    lease_expirations: int
    completed: int
    failed_attempts: int
    died: int
    events: dict[str, int]
    wait_histogram: Histogram
    run_histogram: Histogram


class Statistics:
    """Adds at most five numbers a record, and what their past needs."""

    name = "stats"
    version = 3
    tables = (*COUNTERS, SNAPSHOTS, CARRIED)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: e.Record, after: Job) -> Iterable[Change]:
        past, changes = kept(rows, COUNTERS, before, record), counted(before, record, after)
        return past + changes if past else changes


def counted(before: Job | None, record: e.Record, after: Job) -> tuple[Change, ...]:
    """The changes of the counters that a record asks for."""
    event, spec = record.event, after.spec
    sort = type(event)
    cause = after.death_cause if sort is e.JobDied else None
    moves = _moves(spec.queue, spec.kind, _shown(before), _shown(after), event.type, cause)
    if sort is e.JobLeased:
        return moves + _WAITS.changes(record.time - max(before.run_at, spec.created_at))
    if sort in ENDS_OF_RUNS:
        return moves + _RUNS.changes(record.time - before.lease.leased_at)
    return moves


def _shown(job: Job | None) -> State | None:
    """The state a job is counted under; None for one that is not there, or is retired."""
    return None if job is None or job.retired else job.state


@lru_cache(MOVES_REMEMBERED)
def _moves(
    queue: str, kind: str, old: State | None, new: State | None, event_type: str, cause: DeathCause | None
) -> tuple[Change, ...]:
    """The event counted, and the job moved from its old state to its new one."""
    counted = (TOTALS, ("events", event_type) if cause is None else ("deaths", cause), 1)
    if old is new:
        return (counted,)
    arrives = () if new is None else ((JOBS, (queue, kind, new.value), 1),)
    leaves = () if old is None else ((JOBS, (queue, kind, old.value), -1),)
    return (counted, *arrives, *leaves)


class _Durations:
    """The counters of one histogram, their keys made once."""

    def __init__(self, name: str) -> None:
        self._sum = (name, "microseconds")
        self._buckets: list[Change] = [(TOTALS, (name, bucket), 1) for bucket in _BUCKETS]

    def changes(self, duration: int) -> tuple[Change, ...]:
        return (TOTALS, self._sum, duration), self._buckets[bisect_left(_BOUNDS, duration)]

    def histogram(self, totals: dict[tuple, int]) -> Histogram:
        counts = tuple(totals.get(key, 0) for _, key, _ in self._buckets)
        return Histogram(BOUNDS_SECONDS, counts, totals.get(self._sum, 0) / MICROSECONDS, sum(counts))


_RENEWED: tuple[Change, ...] = ((TOTALS, ("events", e.LeaseRenewed.type), 1),)
_WAITS = _Durations("waits")
_RUNS = _Durations("runs")


def read(reader: Rows) -> Stats:
    """The statistics as of this view. Costs one step for each queue, kind and state that ever held a job."""
    totals = dict(reader.rows(TOTALS))
    deaths = {cause: totals.get(("deaths", cause), 0) for cause in DeathCause}
    died = sum(deaths.values())
    events = {name: totals.get(("events", name), 0) for name in e.EVENT_TYPES} | {e.JobDied.type: died}
    waits, runs = _WAITS.histogram(totals), _RUNS.histogram(totals)
    jobs, queues, kinds = _jobs(reader)
    return Stats(
        jobs=jobs,
        queues=queues,
        kinds=kinds,
        average_wait_seconds=waits.average_seconds,
        average_run_seconds=runs.average_seconds,
        lease_expirations=events[e.LeaseExpired.type] + deaths[DeathCause.LEASE_EXPIRED],
        completed=events[e.JobCompleted.type],
        failed_attempts=events[e.AttemptFailed.type] + died - deaths[DeathCause.LEASE_EXPIRED],
        died=died,
        events=events,
        wait_histogram=waits,
        run_histogram=runs,
    )


def past(reader: Rows, position: int) -> Past:
    """What is to become the counters as they were at a position. Raises LookupError when a snapshot is missing."""
    return Past.before(reader, COUNTERS, position)


def advance(past: Past, reader: Rows, records: Iterable[e.Record]) -> None:
    """Bring the counters of the past up to the records that follow; `read` then tells what they say."""
    for record in records:
        jobs = past.step(reader, record)
        past.add(record.position, _RENEWED if jobs is None else counted(jobs[0], record, jobs[1]))


def _jobs(reader: Rows) -> tuple[dict[str, int], dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Jobs by state: of all, of each queue, of each kind."""
    everything, queues, kinds = _no_jobs(), {}, {}
    for (queue, kind, state), count in reader.rows(JOBS):
        everything[state] += count
        queues.setdefault(queue, _no_jobs())[state] += count
        kinds.setdefault(kind, _no_jobs())[state] += count
    return everything, queues, kinds


def _no_jobs() -> dict[str, int]:
    return {state.value: 0 for state in State}
