"""Making projections anew beside those that are there, and putting what differs in their place in one commit."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from eventjobs.domain.projection import Projection, Table
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.codec import seal
from eventjobs.store.contract import Reader, StorageFull, StoreError
from eventjobs.store.lmdb.datafile import DATA_FILE, open_environment
from eventjobs.store.lmdb.reader import StoredHead
from eventjobs.store.lmdb.rebuild import fold_records, next_records
from eventjobs.store.lmdb.residency import release_pages
from eventjobs.store.lmdb.tables import (
    HEAD_KEY,
    MAX_DATABASES,
    PROJECTION_PREFIX,
    Tables,
    database_name,
)
from eventjobs.store.lmdb.transaction import LmdbTransaction
from eventjobs.store.merkle import Frontier

MAP_BYTES = 1 << 38

Rows = Iterator[tuple[bytes, bytes]]
"""Keys and values as stored, checksums and all, in the order of the keys."""
Difference = tuple[bytes, bytes | None]
"""A key, and what should be stored under it: None for nothing."""


class Aside:
    """Tables of some projections, in a store of their own in a directory that is thrown away afterwards."""

    def __init__(self, directory: Path, projections: Sequence[Projection]) -> None:
        self._file, self._projections = directory.resolve() / DATA_FILE, tuple(projections)
        self._position = 0
        options = {"max_dbs": MAX_DATABASES, "sync": False, "metasync": False, "lock": False}
        self._env = lmdb.open(os.fsencode(directory), map_size=MAP_BYTES, **options)
        with self._env.begin(write=True) as txn:
            self._tables = Tables(self._env, self._projections, txn, Archive(directory / ARCHIVE_DIRECTORY))
            txn.put(HEAD_KEY, seal(HEAD_KEY, StoredHead(0, Frontier()).encode()), db=self._tables.meta)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._env.close()

    def fold(self, reader: Reader, progress: Callable[[int, int], None]) -> None:
        """Make the tables of a log; of one that has grown since, bring them up to it. Raises Corrupt, StorageFull."""
        position, size = self._position, reader.head().size
        progress(0, size)
        while position < size:
            records = next_records(reader, position, size)
            try:
                with self._env.begin(write=True) as txn:
                    fold_records(LmdbTransaction(self._tables, txn, ()), self._tables, txn, self._projections, records)
            except (lmdb.MapFullError, lmdb.DiskError) as error:
                raise StorageFull(f"there is no room in {self._file.parent} ({error})") from error
            position = self._position = records[-1].position
            release_pages(self._file)
            progress(position, size)

    @contextmanager
    def rows(self, table: Table) -> Iterator[Rows]:
        """The rows of a table as they should be stored."""
        with self._env.begin() as txn, txn.cursor(db=self._tables.by_table[table][0]) as cursor:
            yield iter(cursor)

    def row(self, table: Table, key: bytes) -> bytes | None:
        """One of them, by its key."""
        with self._env.begin() as txn:
            return txn.get(key, db=self._tables.by_table[table][0])

    def name_of(self, table: Table, key: bytes) -> str:
        """A row's key for a reader."""
        try:
            parts = self._tables.by_table[table][1].decode(key)
        except (ValueError, IndexError, struct.error):
            return key.hex()
        return ", ".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)


def differences(stored: Rows, made: Rows) -> Iterator[Difference]:
    """What must be put, or taken away, to make of the stored rows those that were made."""
    old, new = next(stored, None), next(made, None)
    while old is not None or new is not None:
        if old == new:
            old, new = next(stored, None), next(made, None)
        elif new is None or (old is not None and old[0] < new[0]):
            yield old[0], None
            old = next(stored, None)
        elif old is None or new[0] < old[0]:
            yield new
            new = next(made, None)
        else:
            yield new
            old, new = next(stored, None), next(made, None)


def put_in_place(directory: Path, map_size: int, aside: Aside, projections: Sequence[Projection]) -> None:
    """Give the projections of the store in a directory, whose lock is held, the rows that were made, and the checkpoint
    of the whole log, in one commit. Raises StorageFull and StoreError, with nothing changed.
    """
    try:
        with open_environment(directory, map_size) as env:
            _write(env, Archive(directory / ARCHIVE_DIRECTORY), aside, projections)
    except (lmdb.MapFullError, lmdb.DiskError) as error:
        raise StorageFull(f"there is no room in {directory} ({error}); nothing was changed") from error
    except lmdb.Error as error:
        raise StoreError(f"{directory} could not be written ({error}); nothing was changed") from error


def _write(env: lmdb.Environment, archive: Archive, aside: Aside, projections: Sequence[Projection]) -> None:
    tables = _opened(env, archive, projections)
    with env.begin() as before, env.begin(write=True) as txn:
        for projection in projections:
            for table in projection.tables:
                database = tables.by_table[table][0]
                with before.cursor(db=database) as stored, aside.rows(table) as made:
                    for key, value in differences(iter(stored), made):
                        if value is None:
                            txn.delete(key, db=database)
                        else:
                            txn.put(key, value, db=database)
        transaction = LmdbTransaction(tables, txn, ())
        size = transaction.head().size
        for projection in projections:
            transaction.set_progress(projection, size)


def _opened(env: lmdb.Environment, archive: Archive, projections: Sequence[Projection]) -> Tables:
    """The databases. A projection of which one was not there loses its checkpoint with that, so that it does not pass
    for whole if this is where it ends."""
    with env.begin(write=True) as txn:
        tables = Tables(env, projections, txn, archive)
        for projection in projections:
            if tables.made & set(map(database_name, projection.tables)):
                txn.delete(PROJECTION_PREFIX + projection.name.encode(), db=tables.meta)
    return tables
