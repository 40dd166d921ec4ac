"""Giving room back to the disk: LMDB's file never shrinks by itself, so it is written anew and put in its own place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import lmdb
from attrs import frozen

from eventjobs.store.archive import ARCHIVE_DIRECTORY
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.flushing import flush
from eventjobs.store.lmdb.anew import write_anew
from eventjobs.store.lmdb.guards import DirectoryLock
from eventjobs.store.lmdb.residency import release_pages
from eventjobs.store.lmdb.snapshot import (
    HEADROOM_BYTES,
    ROWS_BETWEEN,
    Snapshot,
    data_file,
    refuse_cut_off,
    structural_faults,
)
from eventjobs.store.lmdb.tables import MAX_DATABASES

PARTIAL_FILE = "data.mdb.partial"
LMDB_LOCK_FILE = "lock.mdb"


@frozen
class Compacted:
    """The size of the file before and after, in bytes."""

    before: int
    after: int


def compact(directory: Path, progress: Callable[[int, int], None]) -> Compacted:
    """Write the store of a directory anew, row by row, compare both, and put the new file in the place of the old.

    Until the very end the file that was there is untouched. `progress` is told of rows that were written, then of those
    that were compared, and of all.
    Raises AlreadyOpen beside a coordinator, NoStore, Corrupt for a damaged store, StorageFull.
    """
    file = data_file(directory)
    try:
        lock = DirectoryLock(directory)
    except OSError as error:
        raise StoreError(f"{directory} cannot be written: {error.strerror}") from error
    partial = directory / PARTIAL_FILE
    try:
        before = file.stat().st_size
        _write(file, partial, progress)
        _compare(file, partial, progress)
        after = partial.stat().st_size
        partial.replace(file)
        (directory / LMDB_LOCK_FILE).unlink(missing_ok=True)  # it tells of transactions of the file that is gone
        flush(directory)
    finally:
        partial.unlink(missing_ok=True)
        lock.release()
    return Compacted(before, after)


def _write(file: Path, partial: Path, progress: Callable[[int, int], None]) -> None:
    partial.unlink(missing_ok=True)
    try:
        with _opened(file) as snapshot:
            write_anew(snapshot, partial, progress)
    except (lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
        raise Corrupt(f"{file} is damaged: {error}") from error
    except (lmdb.Error, OSError) as error:
        raise StoreError(f"{file} cannot be written anew: {error}") from error


def _compare(file: Path, partial: Path, progress: Callable[[int, int], None]) -> None:
    """Raise Corrupt unless both hold the same rows, and the new one is in order."""
    if faults := structural_faults(partial):
        raise Corrupt(f"{file} is damaged, and so is what was made of it: {faults[0]}")
    with _opened(file) as old, _opened(partial) as new:
        if old.names != new.names:
            raise Corrupt(f"{file} is damaged: its tables are not those of a copy")
        total, done = sum(map(old.count, old.names)), 0
        for name in old.names:
            for one, other in zip_longest(old.rows(name), new.rows(name)):
                if one != other:
                    raise Corrupt(f"{file} is damaged: {name} is not the same in a copy")
                done += 1
                if done % ROWS_BETWEEN == 0:
                    release_pages(partial.resolve())
                    progress(done, total)
        progress(done, total)


@contextmanager
def _opened(file: Path) -> Iterator[Snapshot]:
    """A file that nobody writes, as the lock is ours."""
    refuse_cut_off(file)
    size = file.stat().st_size + HEADROOM_BYTES
    options = {"readonly": True, "create": False, "lock": False, "max_dbs": 2 * MAX_DATABASES}
    try:
        with lmdb.open(os.fsencode(file), subdir=False, map_size=size, **options) as env, env.begin() as txn:
            yield Snapshot(env, txn, file, file.with_name(ARCHIVE_DIRECTORY))
    except lmdb.InvalidError as error:
        raise StoreError(f"{file} is not a store of eventjobs: {error}") from error
