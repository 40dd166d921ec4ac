"""The statistics as they were at any position of the log: counters put down at intervals, and what leads on from them.

`stats_snapshots`, key (position): all counters as they stood after the record at a multiple of SNAPSHOT_RECORDS, as
JSON. `stats_carried`, key (position of the snapshot, job id): of a job that came before a snapshot and changed after
it, what statistics ask of the job as it stood at the snapshot, as JSON. Jobs that came after the snapshot need none.

So the statistics of any position are a snapshot and a fold of fewer than SNAPSHOT_RECORDS records, however long the log
is, and whatever has become of the jobs since. Neither table holds anything of a payload, a result or an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from eventjobs.domain import events as e
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job, JobSpec, Lease, State
from eventjobs.domain.projection import Change, Key, Part, Rows, Table, Value
from eventjobs.domain.retry import DEFAULT_POLICY

SNAPSHOT_RECORDS = 16_384
"""Records between two snapshots: folding so many takes some tenths of a second. A store that was written with another
number must have its statistics folded anew, so changing it takes a new version of theirs."""

SNAPSHOTS = Table("stats_snapshots", (Part.NUMBER,))
CARRIED = Table("stats_carried", (Part.NUMBER, Part.UUID), first_stays=True)


def kept(rows: Rows, counters: Iterable[Table], before: Job | None, record: e.Record) -> tuple[Change, ...]:
    """What a record adds to the two tables. The counters are read once for each snapshot, as they stood before it."""
    base = _base(record.position)
    carried = before is not None and before.spec.position <= base and type(record.event) is not e.LeaseRenewed
    changes = ((CARRIED, (base, record.job_id), _encode(before)),) if carried else ()
    if base and record.position == base + 1:
        content = {table.name: [[*key, value] for key, value in rows.rows(table)] for table in counters}
        return ((SNAPSHOTS, (base,), msgspec.json.encode(content)), *changes)
    return changes


def _base(position: int) -> int:
    """The last snapshot before a record; 0 stands for the empty log, of which there is none."""
    return (position - 1) // SNAPSHOT_RECORDS * SNAPSHOT_RECORDS


def _encode(job: Job) -> bytes:
    spec = job.spec
    leased_at = None if job.lease is None else job.lease.leased_at
    facts = (spec.position, spec.queue, spec.kind, spec.created_at, job.state.value, job.run_at, leased_at)
    return msgspec.json.encode(facts)


def _decode(job_id: str, stored: bytes) -> Job:
    """As much of the job as statistics ask for; nothing else of it is what it was."""
    position, queue, kind, created_at, state, run_at, leased_at = msgspec.json.decode(stored)
    spec = JobSpec(job_id, position, kind, queue, 0, 1, DEFAULT_POLICY, None, None, None, None, created_at)
    lease = None if leased_at is None else Lease("", leased_at, 0, leased_at)
    return Job(spec, 0, State(state), 0, run_at, 0, lease, None, None, None, None, created_at, None)


class Past:
    """The counters on their way to a position, to be read as `Rows`. Memory is bounded by SNAPSHOT_RECORDS and the
    number of counters.

    Made at the last snapshot before the position; each record up to it is then told of, in order.
    """

    def __init__(self, base: int, counters: dict[Table, dict[Key, int]]) -> None:
        self.base = self.position = base
        self._counters = counters
        self._jobs: dict[str, Job] = {}

    @classmethod
    def empty(cls, tables: Iterable[Table]) -> Past:
        """At the beginning of a log."""
        return cls(0, {table: {} for table in tables})

    @classmethod
    def before(cls, rows: Rows, tables: Iterable[Table], position: int) -> Past:
        """At the last snapshot before a position. Raises LookupError when it is not there."""
        past = cls.empty(tables)
        base = _base(position) if position else 0
        if not base:
            return past
        stored = rows.row(SNAPSHOTS, (base,))
        if stored is None:
            raise LookupError(f"{SNAPSHOTS.name}: the snapshot at position {base} is missing")
        content = msgspec.json.decode(stored)
        return cls(
            base,
            {table: {tuple(key): value for *key, value in content[table.name]} for table in past._counters},
        )

    def step(self, rows: Rows, record: e.Record) -> tuple[Job | None, Job] | None:
        """The record's job before and after it; None when there is nothing to know, as a renewal moves nothing."""
        before = self._jobs.get(record.job_id)
        if before is None and type(record.event) is not e.JobEnqueued:
            found = rows.row(CARRIED, (self.base, record.job_id))
            if found is None and type(record.event) is e.LeaseRenewed:
                return None
            if found is None:
                raise LookupError(f"{CARRIED.name}: job {record.job_id} is missing at position {self.base}")
            before = _decode(record.job_id, found)
        after = self._jobs[record.job_id] = evolve(before, record)
        return before, after

    def add(self, position: int, changes: Iterable[Change]) -> None:
        """Let the record at a position take its effect on the counters."""
        for table, key, value in changes:
            counters = self._counters[table]
            counters[key] = counters.get(key, 0) + value
        self.position = position

    def row(self, table: Table, key: Key) -> Value | None:
        return self._counters[table].get(key)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        found = sorted(self._counters[table].items(), reverse=reverse)
        found = (row for row in found if row[0][: len(prefix)] == prefix)
        return (row for row in found if beyond is None or (row[0] < beyond if reverse else row[0] > beyond))

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        last = None
        for key, value in self.rows(table, prefix):
            if key[:names] != last:
                last = key[:names]
                yield key, value
