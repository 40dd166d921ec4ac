"""A place for more rows than memory should hold: a store of its own in a directory that is thrown away."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from eventjobs.store.contract import StorageFull
from eventjobs.store.lmdb.residency import release_pages

DATA_FILE = "data.mdb"
MAP_BYTES = 1 << 40
MAP_BYTES_WHERE_SCARCE = 8 << 30
"""For systems that limit address space."""
MAX_TABLES = 128
ROWS_BETWEEN = 4_096
"""How many rows are read before the pages that they lie on are let go."""


class Scratch:
    """Tables of rows by name, in the order of their keys. Nothing is flushed to disk, and nothing outlives it."""

    def __init__(self, directory: Path) -> None:
        options = {"max_dbs": MAX_TABLES, "sync": False, "metasync": False, "lock": False}
        try:
            self._env = lmdb.open(os.fsencode(directory), map_size=MAP_BYTES, **options)
        except lmdb.MemoryError:
            self._env = lmdb.open(os.fsencode(directory), map_size=MAP_BYTES_WHERE_SCARCE, **options)
        self._directory, self._file = directory, directory.resolve() / DATA_FILE
        self._databases: dict[str, object] = {}
        self._txn = self._env.begin(write=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._txn.abort()
        self._env.close()

    def get(self, table: str, key: bytes) -> bytes | None:
        """The value under a key."""
        return self._txn.get(key, db=self._database(table))

    def write(self, table: str, rows: Iterable[tuple[bytes, bytes]], gone: Iterable[bytes] = ()) -> None:
        """Put rows, and take away those under the keys in `gone`. Raises StorageFull."""
        database = self._database(table)
        try:
            with self._txn.cursor(db=database) as cursor:
                cursor.putmulti(rows)
            for key in gone:
                self._txn.delete(key, db=database)
        except (lmdb.MapFullError, lmdb.DiskError) as error:
            raise self._full(error) from error

    def rows(self, table: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows from a key on. No longer valid after a write."""
        with self._txn.cursor(db=self._database(table)) as cursor:
            if not (cursor.set_range(start) if start else cursor.first()):
                return
            rows = iter(cursor)
            for row in rows:
                release_pages(self._file)
                yield row
                yield from islice(rows, ROWS_BETWEEN - 1)

    def commit(self) -> None:
        """Let go of the memory that writing takes. Raises StorageFull."""
        try:
            self._txn.commit()
        except (lmdb.MapFullError, lmdb.DiskError) as error:
            raise self._full(error) from error
        self._txn = self._env.begin(write=True)
        release_pages(self._file)

    def _database(self, table: str) -> object:
        if table not in self._databases:
            self._databases[table] = self._env.open_db(table.encode(), txn=self._txn)
        return self._databases[table]

    def _full(self, error: lmdb.Error) -> StorageFull:
        return StorageFull(f"there is no room in {self._directory} ({error}); TMPDIR names another place")
