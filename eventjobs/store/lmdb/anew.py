"""Writing a store's file anew, row by row: what is in no row is not in the new file.

LMDB's own compacting copy takes pages as they are. Behind a value that has a page for itself, such a page keeps what
lay in memory there before, and that may be a text that was erased since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb

from eventjobs.store.contract import StorageFull
from eventjobs.store.flushing import flush
from eventjobs.store.lmdb.residency import release_pages
from eventjobs.store.lmdb.snapshot import HEADROOM_BYTES, Rows, Snapshot
from eventjobs.store.lmdb.space import no_space_left
from eventjobs.store.lmdb.tables import MAX_DATABASES

COMMIT_BYTES = 8 << 20
"""A commit ends with the row that reaches this; none is flushed before the last."""


def write_anew(snapshot: Snapshot, target: Path, progress: Callable[[int, int], None]) -> None:
    """Write every row of a store into a file that is new or empty, and flush it. Raises Corrupt where the store cannot
    be read on, and StorageFull; what was written then is not removed. `progress` is told of rows, and of all.
    """
    options = {"subdir": False, "lock": False, "sync": False, "metasync": False, "max_dbs": 2 * MAX_DATABASES}
    map_size = 2 * snapshot.file.stat().st_size + HEADROOM_BYTES
    total, done = sum(map(snapshot.count, snapshot.names)), 0
    try:
        with lmdb.open(os.fsencode(target), map_size=map_size, **options) as env:
            for name in snapshot.names:
                database, rows = env.open_db(name.encode()), snapshot.rows(name)
                while written := _commit(env, database, rows):
                    done += written
                    release_pages(target.resolve())
                    progress(done, total)
        flush(target)
    except (lmdb.Error, OSError) as error:
        if isinstance(error, lmdb.MapFullError | lmdb.DiskError) or no_space_left(target.parent):
            raise StorageFull(f"there is no room in {target.parent} for {target.name}; make room first") from error
        raise


def _commit(env: lmdb.Environment, database: object, rows: Rows) -> int:
    """Write the next rows; how many, 0 after the last."""
    with env.begin(write=True) as txn, txn.cursor(db=database) as cursor:
        return cursor.putmulti(_of_one_commit(rows), append=True)[0]


def _of_one_commit(rows: Rows) -> Iterator[tuple[bytes, bytes]]:
    size = 0
    for key, value in rows:
        yield key, value
        size += len(key) + len(value)
        if size >= COMMIT_BYTES:
            return
