"""Rebuilding projections from the log when a store is opened: new versions of the code over an old store."""

from __future__ import annotations

from collections.abc import Sequence

import lmdb
import structlog

from eventjobs.domain.events import Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.projection import Projection
from eventjobs.store.codec import decode_job, encode_job, seal, unseal
from eventjobs.store.contract import Corrupt, Reader, StoreError
from eventjobs.store.keys import uuid_bytes
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.tables import (
    CONTENTS,
    PROJECTION_PREFIX,
    TREE,
    TREE_KEY,
    Tables,
    database_name,
    decode_progress,
)
from eventjobs.store.lmdb.transaction import LmdbTransaction

CHUNK_RECORDS = 2_000
"""Records folded in one commit."""
REPORT_RECORDS = 200_000
"""A log line is written each time so many records are folded."""

log = structlog.get_logger("eventjobs.store")


def check_nothing_is_lost(tables: Tables, txn: lmdb.Transaction, projections: Sequence[Projection]) -> None:
    """Raise Corrupt for a table that was not there, and was made just now, though all that belongs in it was written:
    the file is damaged where it has the names of its tables."""
    lost = {CONTENTS} & tables.made if txn.stat(tables.log)["entries"] else set()
    if txn.get(TREE_KEY, db=tables.meta) is not None:
        lost |= {TREE} & tables.made
    for projection in projections:
        progress = stored_progress(tables, txn, projection)
        if progress is not None and progress[0] == projection.version:
            lost |= set(map(database_name, projection.tables)) & tables.made
    if lost:
        raise Corrupt(f"the tables {', '.join(sorted(lost))} are missing; put back a copy of the store")


def rebuild_stale(env: lmdb.Environment, tables: Tables, projections: Sequence[Projection]) -> list[str]:
    """Empty and fold anew every projection that is older than its code or behind the log; returns their names.

    Stopped in the middle, it begins again at the next start. Raises StoreError for a projection newer than its code.
    """
    with env.begin(write=True) as txn:
        size = LmdbReader(tables, txn).head().size
        stale = [projection for projection in projections if _is_stale(tables, txn, projection, size)]
        if stale:
            _empty(tables, txn, stale)
    if not stale:
        return []
    names = [projection.name for projection in stale]
    if size:
        log.info("rebuilding_projections", projections=names, records=size)
    position = 0
    while position < size:
        if position and position % REPORT_RECORDS == 0:
            log.info("rebuilding_projections", projections=names, records=size, done=position)
        with env.begin(write=True) as txn:
            position = _fold_chunk(LmdbTransaction(tables, txn, ()), tables, txn, stale, position, size)
    with env.begin(write=True) as txn:
        txn.drop(tables.scratch, delete=False)
        transaction = LmdbTransaction(tables, txn, ())
        for projection in stale:
            transaction.set_progress(projection, size)
    return names


def _is_stale(tables: Tables, txn: lmdb.Transaction, projection: Projection, size: int) -> bool:
    progress = stored_progress(tables, txn, projection)
    if progress is None:
        return True
    version, checkpoint = progress
    if version > projection.version:
        raise StoreError(
            f"projection {projection.name} has version {version}, this eventjobs knows {projection.version}; "
            "use a newer one"
        )
    return version < projection.version or checkpoint != size


def stored_progress(tables: Tables, txn: lmdb.Transaction, projection: Projection) -> tuple[int, int] | None:
    """The projection's version and checkpoint as stored."""
    key = PROJECTION_PREFIX + projection.name.encode()
    stored = txn.get(key, db=tables.meta)
    return None if stored is None else decode_progress(unseal(key, stored, "meta"))


def _empty(tables: Tables, txn: lmdb.Transaction, stale: Sequence[Projection]) -> None:
    """Drop the rows; the progress row goes with them, so that an interrupted rebuild is seen as one."""
    txn.drop(tables.scratch, delete=False)
    for projection in stale:
        txn.delete(PROJECTION_PREFIX + projection.name.encode(), db=tables.meta)
        for table in projection.tables:
            txn.drop(tables.by_table[table][0], delete=False)


def _fold_chunk(
    transaction: LmdbTransaction,
    tables: Tables,
    txn: lmdb.Transaction,
    stale: Sequence[Projection],
    position: int,
    size: int,
) -> int:
    """Fold the next records of this store. Returns the new position."""
    records = next_records(transaction, position, size)
    fold_records(transaction, tables, txn, stale, records)
    return records[-1].position


def next_records(reader: Reader, position: int, size: int) -> list[Record]:
    """What is folded in one commit: the records above a position. Raises Corrupt when there are none up to `size`."""
    records = reader.records(position, min(CHUNK_RECORDS, size - position))
    if not records:
        raise Corrupt(f"log: position {position + 1} is missing")
    return records


def fold_records(
    transaction: LmdbTransaction,
    tables: Tables,
    txn: lmdb.Transaction,
    projections: Sequence[Projection],
    records: Sequence[Record],
) -> None:
    """Bring projections up to some more records. Jobs as of the fold's position live in the scratch database."""
    for record in records:
        key = uuid_bytes(record.job_id)
        stored = txn.get(key, db=tables.scratch)
        before = None if stored is None else decode_job(unseal(key, stored, "rebuild"))
        after = evolve(before, record)
        transaction.project(projections, before, record, after)
        txn.put(key, seal(key, encode_job(after)), db=tables.scratch)
    transaction.finish()
