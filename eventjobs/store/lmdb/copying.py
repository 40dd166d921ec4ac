"""A copy of a store that goes on being written: as of one moment, without free pages, and whole by itself."""

from __future__ import annotations

import select
import shutil
import tempfile
import threading
from pathlib import Path

import lmdb

from eventjobs.store.contract import StorageFull, StoreError
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.space import no_space_left
from eventjobs.store.lmdb.tables import Tables, archived_size
from eventjobs.store.lmdb.unsealing import unseal_into

PIECE_BYTES = 1 << 20


class LmdbCopy:
    """See store.contract.Copy. A read transaction: pages that are freed meanwhile are used again only after it."""

    def __init__(self, env: lmdb.Environment, tables: Tables, directory: Path) -> None:
        self._env = env
        self._tables = tables
        self._directory = directory
        self._txn = env.begin()
        self._writing = threading.Lock()
        try:
            self.head = LmdbReader(tables, self._txn).head()
            self._archived = archived_size(self._txn, tables.meta)
        except BaseException:
            self._txn.abort()
            raise

    def write_to(self, descriptor: int) -> None:
        with self._writing:
            if self._archived:
                self._write_with_archive(descriptor)
            else:
                self._copy(descriptor)

    def _copy(self, descriptor: int) -> None:
        try:
            self._env.copyfd(descriptor, compact=True, txn=self._txn)
        except lmdb.Error as error:
            raise StoreError(f"the copy of the store broke off: {error}") from error

    def _write_with_archive(self, descriptor: int) -> None:
        """The records of the archive are put back into the copy in a file without a name, which no crash leaves."""

        def go_on(done: int, total: int) -> None:
            poll = select.poll()
            poll.register(descriptor, 0)
            if poll.poll(0):
                raise StoreError("the reader of the copy has left")

        with tempfile.TemporaryFile(dir=self._directory) as file:
            try:
                self._copy(file.fileno())
                unseal_into(Path(f"/proc/self/fd/{file.fileno()}"), self._tables.archive, go_on)
            except StoreError as error:
                if no_space_left(self._directory):
                    raise StorageFull(f"there is no room in {self._directory} for a copy with the archive") from error
                raise
            file.seek(0)
            with open(descriptor, "wb", closefd=False) as target:
                shutil.copyfileobj(file, target, PIECE_BYTES)

    def close(self) -> None:
        with self._writing:
            self._txn.abort()
