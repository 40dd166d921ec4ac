"""The tables of a store in a database, and how an old store is brought up to this program.

Everything lies in the schema `eventjobs`. Names are compared as bytes (collation "C"), so that they sort as they do in
every other engine. specs/postgres.md says what each table is.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from eventjobs.domain.projection import Table
from eventjobs.store.contract import StoreError
from eventjobs.store.postgres import intake_schema
from eventjobs.store.postgres.fitness import refuse_foreign_schema
from eventjobs.store.postgres.locks import LOCK_SPACE, SCHEMA_LOCK
from eventjobs.store.postgres.settings import OUTLASTING_MILLISECONDS, bounded

SCHEMA_VERSION = 2
"""What this program writes."""

_FIRST = """
CREATE TABLE eventjobs.meta (
    name text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL
);
INSERT INTO eventjobs.meta VALUES ('generation', 1);

CREATE TABLE eventjobs.log (
    position bigint PRIMARY KEY,
    value bytea NOT NULL
);
CREATE TABLE eventjobs.contents (
    position bigint PRIMARY KEY,
    value bytea NOT NULL
);
CREATE TABLE eventjobs.tree (
    level smallint NOT NULL,
    index bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (level, index)
);
CREATE TABLE eventjobs.heads (
    size bigint PRIMARY KEY,
    time bigint NOT NULL,
    value bytea NOT NULL
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE eventjobs.jobs (
    id uuid PRIMARY KEY,
    position bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    run_at bigint NOT NULL,
    waiting boolean NOT NULL,
    scheduled boolean NOT NULL,
    expires_at bigint,
    value bytea NOT NULL
) WITH (
    autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_analyze_threshold = 50000, autovacuum_analyze_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_ready ON eventjobs.jobs (queue, kind, rank, run_at, position) WHERE waiting;
CREATE INDEX jobs_scheduled ON eventjobs.jobs (run_at, position) WHERE scheduled;
CREATE INDEX jobs_expiries ON eventjobs.jobs (expires_at, position) WHERE expires_at IS NOT NULL;

CREATE TABLE eventjobs.lanes (
    rank bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    PRIMARY KEY (rank, queue, kind)
);
CREATE TABLE eventjobs.lease_requests (
    digest bytea PRIMARY KEY,
    position bigint NOT NULL,
    time bigint NOT NULL
);
CREATE INDEX lease_requests_time ON eventjobs.lease_requests (time);

CREATE TABLE eventjobs.projections (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    left_at bigint
);
CREATE TABLE eventjobs.counters (
    name text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    value numeric NOT NULL,
    PRIMARY KEY (name, key)
);
CREATE TABLE eventjobs.counter_deltas (
    name text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    value bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0);

CREATE FUNCTION eventjobs.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;
CREATE FUNCTION eventjobs.expect(present bigint, wanted bigint, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF present <> wanted THEN
        RAISE EXCEPTION '%: % rows of % that must be there are missing', what, wanted - present, wanted
        USING ERRCODE = 'data_corrupted';
    END IF;
END $$;
"""

FUNCTIONS = """
CREATE OR REPLACE FUNCTION eventjobs.candidates(
    queues text[], kinds text[], due bigint, wanted bigint,
    low_ranks bigint[], low_queues text[], low_kinds text[], low_times bigint[], low_positions bigint[]
) RETURNS SETOF bytea LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lowest CONSTANT bigint := -9223372036854775808;
    lanes record;
    job record;
    taken bigint := 0;
    stretch bigint;
    after_time bigint;
    after_position bigint;
    ids uuid[];
BEGIN
    FOR lanes IN
        SELECT l.rank AS rank, array_agg(l.queue) AS queues, array_agg(l.kind) AS kinds,
               array_agg(coalesce(b.run_at, lowest)) AS times, array_agg(coalesce(b.position, lowest)) AS positions
        FROM eventjobs.lanes l
        LEFT JOIN unnest(low_ranks, low_queues, low_kinds, low_times, low_positions)
            AS b(rank, queue, kind, run_at, position)
            ON b.rank = l.rank AND b.queue = l.queue AND b.kind = l.kind
        WHERE (candidates.queues IS NULL OR l.queue = ANY (candidates.queues))
          AND (candidates.kinds IS NULL OR l.kind = ANY (candidates.kinds))
        GROUP BY l.rank ORDER BY l.rank
    LOOP
        IF cardinality(lanes.queues) = 1 THEN
            FOR job IN
                SELECT j.value FROM eventjobs.jobs j
                WHERE j.waiting AND j.queue = lanes.queues[1] AND j.kind = lanes.kinds[1] AND j.rank = lanes.rank
                  AND j.run_at <= due AND (j.run_at, j.position) > (lanes.times[1], lanes.positions[1])
                ORDER BY j.run_at, j.position LIMIT wanted - taken FOR UPDATE SKIP LOCKED
            LOOP
                taken := taken + 1;
                RETURN NEXT job.value;
            END LOOP;
        ELSE
            after_time := lowest;
            after_position := lowest;
            stretch := greatest(8, 2 * (wanted - taken) / cardinality(lanes.queues));
            LOOP
                WITH head AS MATERIALIZED (
                    SELECT h.id, h.run_at, h.position,
                           row_number() OVER (PARTITION BY l.lane ORDER BY h.run_at, h.position) AS place
                    FROM unnest(lanes.queues, lanes.kinds, lanes.times, lanes.positions) WITH ORDINALITY
                        AS l(queue, kind, run_at, position, lane),
                    LATERAL (
                        SELECT j.id, j.run_at, j.position FROM eventjobs.jobs j
                        WHERE j.waiting AND j.queue = l.queue AND j.kind = l.kind AND j.rank = lanes.rank
                          AND j.run_at <= due
                          AND (j.run_at, j.position) > (l.run_at, l.position)
                          AND (j.run_at, j.position) > (after_time, after_position)
                        ORDER BY j.run_at, j.position LIMIT stretch
                    ) h
                ), edge AS (
                    SELECT e.run_at, e.position FROM head e WHERE e.place = stretch
                    ORDER BY e.run_at, e.position LIMIT 1
                )
                SELECT array_agg(h.id), max(e.run_at), max(e.position) INTO ids, after_time, after_position
                FROM head h LEFT JOIN edge e ON true
                WHERE e.run_at IS NULL OR (h.run_at, h.position) <= (e.run_at, e.position);
                FOR job IN
                    SELECT j.value FROM eventjobs.jobs j
                    WHERE j.id = ANY (ids) AND j.waiting AND j.run_at <= due
                    ORDER BY j.run_at, j.position LIMIT wanted - taken FOR UPDATE SKIP LOCKED
                LOOP
                    taken := taken + 1;
                    RETURN NEXT job.value;
                END LOOP;
                EXIT WHEN taken >= wanted OR after_time IS NULL;
                stretch := 2 * stretch;
            END LOOP;
        END IF;
        EXIT WHEN taken >= wanted;
    END LOOP;
END $$;
"""
"""Candidates for leasing: the values of up to `wanted` waiting jobs that are due, locked; those that others have locked
are passed over. Lanes are merged by stretches of each. The `low_` columns say of some lanes below which place not to
look. Names within the function are qualified, as its columns and those of tables are alike."""

_MIGRATIONS = {1: _FIRST, 2: intake_schema.TABLES}
"""What brings a store of the version before to each version."""
BOUNDED = bounded(lock=OUTLASTING_MILLISECONDS, statement=0, idle=0)
"""Once its turn has come: who waits for a table holds up everybody who wants it after him."""
_GOES_ON = 1
"""The oldest program that may go on writing a store of this version: a rolling upgrade may leave it running. One that
keeps other projections may not: started again it would take them from the newer ones."""


def projection_table(table: Table) -> str:
    """The qualified name of a projection's table."""
    return f"eventjobs.projection_{table.name}"


def create_projection(connection: psycopg.Connection, table: Table) -> None:
    """Make the table of a projection if it is not there. Counters share two tables."""
    if not table.counters:
        connection.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} (key bytea PRIMARY KEY, value bytea NOT NULL)").format(
                sql.Identifier(*projection_table(table).split("."))
            )
        )


def migrate(connection: psycopg.Connection) -> None:
    """Bring the database up to this program's schema, within the open transaction, whose end lets others go on.

    Raises StoreError for a store that only newer programs may write, and for a schema that is somebody else's.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_SPACE, SCHEMA_LOCK))
    connection.execute(BOUNDED)
    refuse_foreign_schema(connection)
    there = refuse_newer(connection)
    if there is None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS eventjobs")
        there = 0
    if there >= SCHEMA_VERSION:
        return
    for version in range(there + 1, SCHEMA_VERSION + 1):
        connection.execute(_MIGRATIONS[version])
    connection.execute(FUNCTIONS)
    connection.execute(intake_schema.FUNCTIONS)
    for name, number in (("schema", SCHEMA_VERSION), ("oldest_program", _GOES_ON)):
        connection.execute(
            "INSERT INTO eventjobs.meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET number = excluded.number",
            (name, number),
        )


def refuse_newer(connection: psycopg.Connection) -> int | None:
    """The version of the schema that is there, None in a database without a store. Raises StoreError for one that only
    newer programs may use."""
    there = _version(connection)
    if there is not None and (oldest := _number(connection, "oldest_program")) > SCHEMA_VERSION:
        raise StoreError(
            f"the store in this database has schema {there}, which programs of schema {oldest} and later may use; "
            f"this eventjobs has {SCHEMA_VERSION}: use a newer one"
        )
    return there


def _version(connection: psycopg.Connection) -> int | None:
    """The schema's version, None in a database without a store."""
    if connection.execute("SELECT to_regclass('eventjobs.meta')").fetchone()[0] is None:
        return None
    return _number(connection, "schema")


def _number(connection: psycopg.Connection, name: str) -> int:
    row = connection.execute("SELECT number FROM eventjobs.meta WHERE name = %s", (name,)).fetchone()
    if row is None:
        raise StoreError(f"the schema eventjobs of this database is of another program: its meta has no {name}")
    return row[0]
