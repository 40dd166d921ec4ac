"""The projections of a store in a database beside those that were made anew, row by row, and what puts them right.

What was made lies aside, in the tables that every projection has; those that commands are decided by are columns of the
database's jobs, so these are compared job by job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import frozen

from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection, Table
from eventjobs.store.codec import decode_job, unseal
from eventjobs.store.indexes import (
    JOBS,
    LEASE_REQUEST_MEMORY,
    LEASE_REQUESTS,
    READY,
    Expiries,
    JobRows,
    LeaseRequests,
    ReadyOrder,
    decode_request,
)
from eventjobs.store.keys import KeyCodec
from eventjobs.store.lmdb.aside import Aside
from eventjobs.store.postgres.arrays import Bytes, Numbers, Texts, Uuids
from eventjobs.store.postgres.connection import Session, Statement
from eventjobs.store.postgres.pending import JOB_COLUMNS, LANES, NEW_JOBS, REQUESTS, job_columns
from eventjobs.store.postgres.schema import projection_table

PAGE_ROWS = 4_096
OF_JOBS = {
    JobRows.name: ("value",),
    ReadyOrder.name: ("run_at", "waiting", "scheduled", "position", "queue", "kind", "rank"),
    Expiries.name: ("expires_at",),
}
"""By projection, the columns of a job that stand for it."""
PUT_JOBS = f"{NEW_JOBS} ON CONFLICT (id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in JOB_COLUMNS[1:]
)
COUNTED = (
    "SELECT key, sum(value)::text FROM (SELECT key, value FROM eventjobs.counters WHERE name = '{name}' UNION ALL "
    "SELECT key, value FROM eventjobs.counter_deltas WHERE name = '{name}') AS parts "
    "WHERE key > %s GROUP BY key HAVING sum(value) <> 0 ORDER BY key LIMIT %s"
)
LANES_MISSING = """
SELECT DISTINCT queue, kind, rank FROM eventjobs.jobs j WHERE waiting AND NOT EXISTS (
    SELECT FROM eventjobs.lanes l WHERE l.rank = j.rank AND l.queue = j.queue AND l.kind = j.kind
) ORDER BY queue, kind, rank
"""

Row = tuple[bytes, object]
"""A key, and what is compared, in a form that is the same on both sides."""
Changes = Sequence[tuple[bytes, object]]
"""Keys, and what should be there; None for nothing."""


@frozen
class Comparison:
    """Rows as they are stored and as they were made, both by key, and the statements that put changes in place."""

    table: Table
    stored: Iterator[Row]
    made: Iterator[Row]
    putting: Callable[[Changes], list[Statement]]


def comparisons(session: Session, aside: Aside, projection: Projection) -> Iterator[Comparison]:
    """What there is to compare of a projection, in the session's open transaction, one after the other."""
    if projection.name in OF_JOBS:
        yield _of_jobs(session, aside, OF_JOBS[projection.name])
        if projection.name == ReadyOrder.name:
            yield _of_lanes(session)
    elif projection.name == LeaseRequests.name:
        yield _of_requests(session, aside)
    else:
        for table in projection.tables:
            yield _of_counters(session, aside, table) if table.counters else _of_rows(session, aside, table)


def _of_rows(session: Session, aside: Aside, table: Table) -> Comparison:
    name = projection_table(table)

    def putting(changes: Changes) -> list[Statement]:
        gone, put = _parted(changes)
        insert = (
            f"INSERT INTO {name} SELECT * FROM unnest(%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        return [
            (f"DELETE FROM {name} WHERE key = ANY (%s)", (Bytes(gone),)),
            (insert, (Bytes(list(put)), Bytes(list(put.values())))),
        ]

    query = f"SELECT key, value FROM {name} WHERE key > %s ORDER BY key LIMIT %s"
    return Comparison(table, _pages(session, query, b""), _made(aside, table), putting)


def _of_counters(session: Session, aside: Aside, table: Table) -> Comparison:
    def putting(changes: Changes) -> list[Statement]:
        keys = Bytes([key for key, _ in changes])
        _, put = _parted(changes)
        insert = (
            "INSERT INTO eventjobs.counters SELECT name, key, value::numeric "
            "FROM unnest(%s, %s, %s) AS new(name, key, value)"
        )
        return [
            ("DELETE FROM eventjobs.counter_deltas WHERE name = %s AND key = ANY (%s)", (table.name, keys)),
            ("DELETE FROM eventjobs.counters WHERE name = %s AND key = ANY (%s)", (table.name, keys)),
            (insert, (Texts([table.name] * len(put)), Bytes(list(put)), Texts(list(map(str, put.values()))))),
        ]

    made = ((key, int.from_bytes(unseal(key, row, table.name), signed=True)) for key, row in _made(aside, table))
    stored = ((key, int(text)) for key, text in _pages(session, COUNTED.format(name=table.name), b""))
    return Comparison(table, stored, (row for row in made if row[1]), putting)


def _of_jobs(session: Session, aside: Aside, columns: tuple[str, ...]) -> Comparison:
    def made() -> Iterator[Row]:
        for key, row in _made(aside, JOBS):
            values = _values(_job(key, row), row)
            yield key, tuple(values[name] for name in columns)

    def putting(changes: Changes) -> list[Statement]:
        gone, put = _parted(changes)
        jobs = [_job(key, aside.row(JOBS, key)) for key in put]
        delete = ("DELETE FROM eventjobs.jobs WHERE id = ANY (%s)", (Uuids(gone),))
        return [delete, (PUT_JOBS, job_columns(jobs))] if jobs else [delete]

    query = f"SELECT id, {', '.join(columns)} FROM eventjobs.jobs WHERE id > %s ORDER BY id LIMIT %s"
    stored = _pages(session, query, "00000000-0000-0000-0000-000000000000")
    return Comparison(JOBS, ((row[0].bytes, tuple(row[1:])) for row in stored), made(), putting)


def _job(key: bytes, row: bytes) -> Job:
    return decode_job(unseal(key, row, JOBS.name))


def _values(job: Job, row: bytes) -> dict[str, object]:
    """What the columns of a job say, beside its id."""
    spec = job.spec
    return {
        "run_at": job.run_at,
        "waiting": job.waiting,
        "scheduled": job.waiting and job.run_at > job.updated_at,
        "expires_at": None if job.lease is None else job.lease.expires_at,
        "value": row,
        "position": spec.position,
        "queue": spec.queue,
        "kind": spec.kind,
        "rank": -spec.priority,
    }


def _of_lanes(session: Session) -> Comparison:
    """Lanes of jobs that wait; there may be others, of jobs that waited once."""
    codec = KeyCodec(READY)
    missing = [(codec.encode((*lane, 0, 0)), lane) for lane in session.fetch(LANES_MISSING)]

    def putting(changes: Changes) -> list[Statement]:
        queues, kinds, ranks = zip(*(lane for _, lane in changes), strict=True)
        return [(LANES, (Numbers(ranks), Texts(queues), Texts(kinds)))]

    return Comparison(READY, iter(()), iter(missing), putting)


def _of_requests(session: Session, aside: Aside) -> Comparison:
    """Those of the last day; older ones may be there or not."""
    ((clock,),) = session.fetch("SELECT eventjobs.clock()")
    oldest = clock - LEASE_REQUEST_MEMORY

    def putting(changes: Changes) -> list[Statement]:
        gone, put = _parted(changes)
        positions, times = [place for place, _ in put.values()], [time for _, time in put.values()]
        return [
            ("DELETE FROM eventjobs.lease_requests WHERE digest = ANY (%s)", (Bytes(gone),)),
            (REQUESTS, (Bytes(list(put)), Numbers(positions), Numbers(times))),
        ]

    query = "SELECT digest, position, time FROM eventjobs.lease_requests WHERE digest > %s ORDER BY digest LIMIT %s"
    stored = ((row[0], tuple(row[1:])) for row in _pages(session, query, b""))
    made = ((key, decode_request(unseal(key, row, LEASE_REQUESTS.name))) for key, row in _made(aside, LEASE_REQUESTS))
    return Comparison(LEASE_REQUESTS, _since(oldest, stored), _since(oldest, made), putting)


def _since(oldest: int, requests: Iterable[Row]) -> Iterator[Row]:
    return (row for row in requests if row[1][1] > oldest)


def _parted(changes: Changes) -> tuple[list[bytes], dict[bytes, object]]:
    """What has to go, and what has to be there."""
    return [key for key, value in changes if value is None], {key: value for key, value in changes if value is not None}


def _made(aside: Aside, table: Table) -> Iterator[tuple[bytes, bytes]]:
    with aside.rows(table) as rows:
        yield from rows


def _pages(session: Session, query: str, low: object) -> Iterator[tuple]:
    while page := session.fetch(query, (low, PAGE_ROWS)):
        yield from page
        low = page[-1][0]
