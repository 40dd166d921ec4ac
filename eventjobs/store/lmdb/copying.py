"""A copy of a store that goes on being written: as of one moment, without the pages that are free."""

from __future__ import annotations

import threading

import lmdb

from eventjobs.store.contract import StoreError
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.tables import Tables


class LmdbCopy:
    """See store.contract.Copy. A read transaction: pages that are freed meanwhile are used again only after it."""

    def __init__(self, env: lmdb.Environment, tables: Tables) -> None:
        self._env = env
        self._txn = env.begin()
        self._writing = threading.Lock()
        try:
            self.head = LmdbReader(tables, self._txn).head()
        except BaseException:
            self._txn.abort()
            raise

    def write_to(self, descriptor: int) -> None:
        with self._writing:
            try:
                self._env.copyfd(descriptor, compact=True, txn=self._txn)
            except lmdb.Error as error:
                raise StoreError(f"the copy of the store broke off: {error}") from error

    def close(self) -> None:
        with self._writing:
            self._txn.abort()
