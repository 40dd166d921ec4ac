"""What one coordinator at a time clears up: deltas of counters, lease requests of yesterday, lanes where nothing waits,
and refused requests of the intake of a month ago.

Clearing up changes no answer of the store.
"""

from __future__ import annotations

from eventjobs.store.indexes import LEASE_REQUEST_MEMORY
from eventjobs.store.postgres.arrays import Numbers, Texts
from eventjobs.store.postgres.connection import Session
from eventjobs.store.postgres.loading import APPEND
from eventjobs.store.postgres.locks import KEEPER_LOCK, LOCK_SPACE
from eventjobs.store.postgres.settings import BEGIN, IDLE_MILLISECONDS, SETTINGS, bounded

FOLDED_ROWS = 100_000
FORGOTTEN_REQUESTS = 10_000
"""Rows that one round takes on."""
LANES_KEPT = 1_000
"""So many lanes cost nobody anything, and one in which nothing waits now may be used again in a moment."""
LANES_PRUNED = 1_000
PRUNING_MILLISECONDS = 1_000
"""How long a look for what waits in a lane may take: dead entries may lie in its way."""
REFUSALS_KEPT = 30 * 24 * 3_600 * 1_000_000
"""How long, in microseconds, a request of the intake that was refused is kept."""
REFUSALS_LOOKED_AT = 1_000

KEEPER = f"SELECT pg_try_advisory_xact_lock({LOCK_SPACE}, {KEEPER_LOCK})"
FOLD = """
WITH deltas AS (
    DELETE FROM eventjobs.counter_deltas
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM eventjobs.counter_deltas LIMIT %s)) RETURNING name, key, value
)
INSERT INTO eventjobs.counters AS kept SELECT name, key, sum(value) FROM deltas GROUP BY name, key
ON CONFLICT (name, key) DO UPDATE SET value = kept.value + excluded.value
"""
FORGET = """
DELETE FROM eventjobs.lease_requests WHERE digest = ANY (ARRAY(
    SELECT digest FROM eventjobs.lease_requests WHERE time <= eventjobs.clock() - %s ORDER BY time LIMIT %s
))
"""
FORGET_REFUSALS = """
DELETE FROM eventjobs.not_enqueued WHERE number = ANY (ARRAY(
    SELECT number FROM (SELECT number, decided_at FROM eventjobs.not_enqueued ORDER BY number LIMIT %s) AS first
    WHERE decided_at <= eventjobs.clock() - %s
))
"""
NOTHING_WAITS = (
    "NOT EXISTS (SELECT FROM eventjobs.jobs j "
    "WHERE j.waiting AND j.queue = l.queue AND j.kind = l.kind AND j.rank = l.rank)"
)
LANES = "SELECT count(*) FROM eventjobs.lanes"
EMPTY = f"SELECT rank, queue, kind FROM eventjobs.lanes l WHERE {NOTHING_WAITS} LIMIT %s"
PRUNE = (
    "DELETE FROM eventjobs.lanes l USING unnest(%s, %s, %s) AS empty(rank, queue, kind) "
    f"WHERE l.rank = empty.rank AND l.queue = empty.queue AND l.kind = empty.kind AND {NOTHING_WAITS}"
)
BRIEF = bounded(PRUNING_MILLISECONDS, PRUNING_MILLISECONDS, IDLE_MILLISECONDS)


def clear_up(session: Session) -> None:
    """One round, unless another coordinator has one under way. Raises psycopg.Error, Away."""
    if session.run([(BEGIN, ()), (SETTINGS, ()), (KEEPER, ())])[2] != [(True,)]:
        return
    forget = (FORGET, (LEASE_REQUEST_MEMORY, FORGOTTEN_REQUESTS))
    *_, ((lanes,),) = session.run([(FOLD, (FOLDED_ROWS,)), forget, ("COMMIT", ()), (LANES, ())])
    if lanes > LANES_KEPT:
        _prune_lanes(session)
    refusals = (FORGET_REFUSALS, (REFUSALS_LOOKED_AT, REFUSALS_KEPT))
    session.run([(BEGIN, ()), (SETTINGS, ()), (BRIEF, ()), refusals, ("COMMIT", ())])


def _prune_lanes(session: Session) -> None:
    """Every lane is put down under the append lock when a job begins to wait in it. Who has that lock sees whether one
    waits; which lanes are worth a look is found out before."""
    empty = session.run([(BEGIN, ()), (SETTINGS, ()), (BRIEF, ()), (EMPTY, (LANES_PRUNED,)), ("COMMIT", ())])[3]
    if empty:
        ranks, queues, kinds = zip(*empty, strict=True)
        prune = (PRUNE, (Numbers(ranks), Texts(queues), Texts(kinds)))
        session.run([(BEGIN, ()), (SETTINGS, ()), (BRIEF, ()), (APPEND, ()), prune, ("COMMIT", ())])
