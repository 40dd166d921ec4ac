"""Moving the oldest records from the database `log` into the archive: first sealed there, then taken out here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import lmdb

from eventjobs.store.archive import PART_RECORDS
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.tables import Tables, archived_size, position_key, set_archived_size

EMPTY_RECORDS = 1_000
"""Records taken out in one commit: a few milliseconds of the writer."""

Read = Callable[[], AbstractContextManager[LmdbReader]]


def seal_next(read: Read, tables: Tables, before: int, pause: Callable[[], None]) -> bool:
    """Seal the oldest segment that is not sealed yet, if its newest record is older than `before` (microseconds).

    See contract.SealsLog. The newest record of the log is never sealed. Each view of the store is short.
    """
    archive = tables.archive
    if archive.checked < archive.end:
        archive.check_next(pause)
        return True
    begin, end = archive.end, archive.end + archive.segment_records
    with read() as reader:
        if end >= reader.head().size or reader.record(end).time >= before:
            return False
        root = reader.subtree(archive.manifest.level, begin // archive.segment_records)

    def parts() -> Iterator[list[bytes]]:
        for after in range(begin, end, PART_RECORDS):
            with read() as reader:
                texts = reader.record_texts(after, PART_RECORDS)
            yield texts
            pause()

    archive.add(parts(), root, pause)
    return True


def empty_next(txn: lmdb.Transaction, tables: Tables) -> bool:
    """Take the next records out that are sealed and read back; False when there were none left to take out."""
    archived = archived_size(txn, tables.meta)
    end = min(archived + EMPTY_RECORDS, tables.archive.checked)
    if end <= archived:
        return False
    for position in range(archived + 1, end + 1):
        txn.delete(position_key(position), db=tables.log)
    set_archived_size(txn, tables.meta, end)
    return True
