"""Bringing projections up to their code when a store is opened: folded anew from the log, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
import structlog

from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection, Table
from eventjobs.store.codec import encode_job, seal
from eventjobs.store.contract import StoreError
from eventjobs.store.indexes import Expiries, JobRows, LeaseRequests, ReadyOrder
from eventjobs.store.keys import KeyCodec, uuid_bytes
from eventjobs.store.postgres.arrays import Bytes, Uuids
from eventjobs.store.postgres.connection import Session
from eventjobs.store.postgres.loading import Loaded, sound_job
from eventjobs.store.postgres.locks import APPEND_LOCK, LOCK_SPACE
from eventjobs.store.postgres.reader import HEAD, PostgresReader, StoredHead
from eventjobs.store.postgres.schema import create_projection, projection_table
from eventjobs.store.postgres.transaction import PostgresTransaction

CHUNK_RECORDS = 2_000
OWN = frozenset({JobRows.name, ReadyOrder.name, Expiries.name, LeaseRequests.name})
"""Projections whose tables are columns and indexes of the engine's own, kept by its transaction."""

log = structlog.get_logger("eventjobs.store")


def kept_as_rows(projections: Sequence[Projection]) -> tuple[Projection, ...]:
    """Those that have tables of their own."""
    return tuple(projection for projection in projections if projection.name not in OWN)


def bring_up_to_date(session: Session, codecs: dict[Table, KeyCodec], projections: Sequence[Projection]) -> int:
    """Make the tables, and fold every projection anew that is missing, older than its code, or was left behind.

    Runs in the open transaction and takes the append lock when there is something to do. The generation that results
    is returned: it grows when the set of projections changes, and whoever writes by an older one is refused. Raises
    StoreError for a projection that is newer than its code.
    """
    connection = session.connection
    stale, left = _compared(connection, projections)
    if not (stale or left):
        return _generation(connection)
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_SPACE, APPEND_LOCK))
    head = StoredHead.of_rows(session.fetch(HEAD))
    size = head.frontier.size
    connection.execute(
        "UPDATE eventjobs.projections SET left_at = %s WHERE name = ANY (%s) AND left_at IS NULL", (size, left)
    )
    stale = [projection for projection in stale if _has_to_be_folded(connection, projection, size)]
    if stale:
        _empty(connection, stale)
        if size:
            names = [projection.name for projection in stale]
            log.info("rebuilding_projections", projections=names, records=size)
            _fold(session, codecs, stale, head)
    for projection in projections:
        connection.execute(
            "INSERT INTO eventjobs.projections VALUES (%s, %s, NULL) "
            "ON CONFLICT (name) DO UPDATE SET version = excluded.version, left_at = NULL",
            (projection.name, projection.version),
        )
    connection.execute("UPDATE eventjobs.meta SET number = number + 1 WHERE name = 'generation'")
    return _generation(connection)


def _compared(connection: psycopg.Connection, projections: Sequence[Projection]) -> tuple[list[Projection], list[str]]:
    """Those that are not kept as their code wants it, and the names of those that nobody keeps from now on."""
    query = "SELECT name, version, left_at FROM eventjobs.projections"
    stored = {name: (version, left_at) for name, version, left_at in connection.execute(query)}
    for projection in projections:
        version = stored.get(projection.name, (0, None))[0]
        if version > projection.version:
            raise StoreError(
                f"projection {projection.name} has version {version}, this eventjobs knows {projection.version}; "
                "use a newer one"
            )
    stale = [each for each in projections if stored.get(each.name) != (each.version, None)]
    names = {projection.name for projection in projections}
    return stale, [name for name, (_, left_at) in stored.items() if name not in names and left_at is None]


def _has_to_be_folded(connection: psycopg.Connection, projection: Projection, size: int) -> bool:
    """Not if it was left and nothing was appended since."""
    query = "SELECT version, left_at FROM eventjobs.projections WHERE name = %s"
    return connection.execute(query, (projection.name,)).fetchone() != (projection.version, size)


def _empty(connection: psycopg.Connection, stale: Sequence[Projection]) -> None:
    for projection in kept_as_rows(stale):
        for table in projection.tables:
            create_projection(connection, table)
            if table.counters:
                for name in ("counters", "counter_deltas"):
                    connection.execute(f"DELETE FROM eventjobs.{name} WHERE name = %s", (table.name,))
            else:
                connection.execute(f"TRUNCATE {projection_table(table)}")
    if any(projection.name in OWN for projection in stale):
        connection.execute("TRUNCATE eventjobs.jobs, eventjobs.lanes, eventjobs.lease_requests")


def _fold(session: Session, codecs: dict[Table, KeyCodec], stale: Sequence[Projection], head: StoredHead) -> None:
    connection = session.connection
    connection.execute("CREATE TEMPORARY TABLE scratch (id uuid PRIMARY KEY, value bytea NOT NULL) ON COMMIT DROP")
    reader = PostgresReader(session, codecs, head)
    own = any(projection.name in OWN for projection in stale)
    for position in range(0, head.frontier.size, CHUNK_RECORDS):
        records = reader.records(position, CHUNK_RECORDS)
        transaction = PostgresTransaction(
            session, codecs, kept_as_rows(stale), Loaded(StoredHead.of_rows([]), 0, 0), False
        )
        jobs = _scratch(connection, {record.job_id for record in records})
        for record in records:
            before = jobs.get(record.job_id)
            after = jobs[record.job_id] = evolve(before, record)
            transaction.fold(before, record, after, own)
        transaction.write()
        _keep(connection, jobs.values())


def _scratch(connection: psycopg.Connection, job_ids: set[str]) -> dict[str, Job]:
    """The jobs as of the fold's position."""
    keys = Uuids([uuid_bytes(job_id) for job_id in job_ids])
    rows = connection.execute("SELECT value FROM scratch WHERE id = ANY (%s)", (keys,), binary=True)
    return {job.id: job for job in (sound_job(value) for (value,) in rows)}


def _keep(connection: psycopg.Connection, jobs: Iterable[Job]) -> None:
    jobs = list(jobs)
    keys = [uuid_bytes(job.id) for job in jobs]
    values = [seal(key, encode_job(job)) for key, job in zip(keys, jobs, strict=True)]
    connection.execute(
        "INSERT INTO scratch SELECT * FROM unnest(%s, %s) ON CONFLICT (id) DO UPDATE SET value = excluded.value",
        (Uuids(keys), Bytes(values)),
    )


def _generation(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT number FROM eventjobs.meta WHERE name = 'generation'").fetchone()[0]
