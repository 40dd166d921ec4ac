"""Putting the records of an archive back into a copy of the store, which is whole by itself then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import lmdb

from eventjobs.store.archive import Archive
from eventjobs.store.codec import seal
from eventjobs.store.contract import StorageFull
from eventjobs.store.lmdb.tables import (
    ARCHIVED_FORMAT,
    ARCHIVED_KEY,
    LOG,
    MAX_DATABASES,
    META,
    WHOLE_FORMAT,
    archived_size,
    format_of,
    position_key,
    set_format,
)

CHUNK_RECORDS = 16_384
MAP_BYTES = 1 << 40


def unseal_into(file: Path, archive: Archive, progress: Callable[[int, int], None]) -> None:
    """Put every record that the store of this file has in its archive alone back into the file, in a commit each some
    thousand. Nobody else has the file open. What was written is not flushed. Raises Corrupt and StorageFull."""
    options = {"subdir": False, "lock": False, "sync": False, "metasync": False, "create": False}
    try:
        with lmdb.open(os.fsencode(file), map_size=MAP_BYTES, max_dbs=2 * MAX_DATABASES, **options) as env:
            _unseal(env, archive, progress)
    except (lmdb.MapFullError, lmdb.DiskError) as error:
        raise StorageFull(f"there is no room in {file.parent} ({error})") from error


def _unseal(env: lmdb.Environment, archive: Archive, progress: Callable[[int, int], None]) -> None:
    meta, log = (env.open_db(name.encode(), create=False) for name in (META, LOG))
    with env.begin() as txn:
        size = archived_size(txn, meta)
    archive.check_reaches(size)
    for after in range(0, size, CHUNK_RECORDS):
        texts = archive.texts(after, min(CHUNK_RECORDS, size - after))
        with env.begin(write=True) as txn:
            for position, text in enumerate(texts, after + 1):
                key = position_key(position)
                txn.put(key, seal(key, text), db=log)
        progress(after + len(texts), size)
    if size:
        with env.begin(write=True) as txn:
            txn.delete(ARCHIVED_KEY, db=meta)
            if format_of(txn, meta) == ARCHIVED_FORMAT:
                set_format(txn, meta, WHOLE_FORMAT)
