"""The LMDB engine: opening with every guard in place, the commit, and what follows from one that failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb
import msgspec

from eventjobs.domain.projection import Projection
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.codec import seal
from eventjobs.store.contract import NOTHING, Corrupt, Failed, Needs, OutcomeUnknown, StorageFull, StoreError
from eventjobs.store.indexes import EXPIRIES, INDEXES, READY
from eventjobs.store.lmdb.copying import LmdbCopy
from eventjobs.store.lmdb.datafile import DATA_FILE, open_environment
from eventjobs.store.lmdb.guards import DirectoryLock, ForkGuard, check_filesystem
from eventjobs.store.lmdb.reader import LmdbReader, StoredHead
from eventjobs.store.lmdb.rebuild import check_nothing_is_lost, rebuild_stale
from eventjobs.store.lmdb.residency import release_pages
from eventjobs.store.lmdb.sealing import empty_next, seal_next
from eventjobs.store.lmdb.space import no_space_left
from eventjobs.store.lmdb.tables import (
    FORMAT_KEY,
    FORMAT_VERSION,
    HEAD_KEY,
    META,
    WHOLE_FORMAT,
    Tables,
    archived_size,
    decode_format,
    key_position,
)
from eventjobs.store.lmdb.transaction import LmdbTransaction
from eventjobs.store.lmdb.tree import complete_tree
from eventjobs.store.merkle import Frontier

DEFAULT_MAP_SIZE = 256 << 30
"""Bytes of address space; the file grows only as it is filled. Divide it where memory limits count address space."""
RESERVE_PARTS = 20
"""One part in this many of the map is kept: a commit needs pages for what it changes before it frees the old ones."""
FINISH_BYTES = 2_048
"""Kept besides for each job that has not ended: its lease, its end, and what they change in the indexes. New jobs are
refused before any of this is touched."""
SPREAD = 2
"""Pages take up to so many times what is written on them."""
MAP_SIZE_MIN = 1 << 20


def open_engine(
    directory: Path,
    read_models: Sequence[Projection] = (),
    map_size: int = DEFAULT_MAP_SIZE,
    force_filesystem: bool = False,
) -> LmdbEngine:
    """Open the store in a directory, creating both if missing, and rebuild every projection that is out of date.

    `map_size` in bytes, at least 1 MiB, bounds the file. Raises StoreError (AlreadyOpen, Corrupt, ...) with a text that
    says what to do; a store that is refused is left as it was.
    """
    if map_size < MAP_SIZE_MIN:
        raise StoreError(f"a map size of {map_size} bytes is too small; the least is {MAP_SIZE_MIN}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the data directory {directory} cannot be made: {error.strerror}") from error
    if not force_filesystem:
        check_filesystem(directory)
    try:
        lock = DirectoryLock(directory)
    except OSError as error:
        raise StoreError(f"the data directory {directory} cannot be written: {error.strerror}") from error
    try:
        return LmdbEngine(directory, lock, (*INDEXES, *read_models), map_size)
    except lmdb.Error as error:
        lock.release()
        raise _meaning(error, directory) from error
    except BaseException:
        lock.release()
        raise


class LmdbEngine:
    """See store.contract.Engine. Made by `open_engine`."""

    shared = False

    def __init__(self, directory: Path, lock: DirectoryLock, projections: Sequence[Projection], map_size: int) -> None:
        self.directory = directory
        self._data_file = directory.resolve() / DATA_FILE
        self._lock, self._projections, self._guard = lock, tuple(projections), ForkGuard()
        self._map_size = map_size
        self._open: tuple[lmdb.Transaction, LmdbTransaction] | None = None
        self._writer: int | None = None
        self._damaged: set[str] = set()
        self._env = open_environment(directory, map_size)
        try:
            _assert_durable(self._env)
            _check_format(self._env, directory)
            self.archive = Archive(directory / ARCHIVE_DIRECTORY)
            with self._env.begin(write=True) as txn:
                self._tables = Tables(self._env, self._projections, txn, self.archive)
                _check_end(LmdbReader(self._tables, txn), self._tables, txn)
                check_nothing_is_lost(self._tables, txn, self._projections)
            self._env.reader_check()
            rebuild_stale(self._env, self._tables, self._projections)
            complete_tree(self._env, self._tables)
            with self.read() as reader:
                self.archive.check_files(reader.subtree)
            self.archive.remove_partial()
            with self._env.begin() as txn:
                self.archive.checked = archived_size(txn, self._tables.meta)
        except BaseException:
            self._env.close()
            raise
        self._page_size = self._env.stat()["psize"]

    def begin(self, needs: Needs = NOTHING) -> LmdbTransaction:
        self._guard.check()
        thread = threading.get_ident()
        if self._writer not in (None, thread):
            raise RuntimeError("the store is written by one thread, and this is another")
        if self._open is not None:
            raise RuntimeError("a write transaction is open already")
        self._writer = thread
        txn = self._env.begin(write=True)
        try:
            transaction = LmdbTransaction(self._tables, txn, self._projections, self._damaged)
        except BaseException:
            txn.abort()
            raise
        self._open = txn, transaction
        return transaction

    def commit(self) -> None:
        txn, transaction = self._taken()
        try:
            transaction.finish()
        except BaseException:
            txn.abort()
            raise
        after = transaction.stored_head()
        try:
            txn.commit()
        except lmdb.Error as error:
            raise self._failed_commit(error, after) from error

    def abort(self) -> None:
        self._taken()[0].abort()

    def _taken(self) -> tuple[lmdb.Transaction, LmdbTransaction]:
        if self._open is None:
            raise RuntimeError("no write transaction is open")
        taken, self._open = self._open, None
        return taken

    def _failed_commit(self, error: lmdb.Error, after: StoredHead | None) -> StoreError:
        """What a failed commit means. No space: nothing was written, if the store reads as it did before. Anything
        else may have reached the disk in part or as a whole, and the environment is not to be trusted any more."""
        full = isinstance(error, (lmdb.DiskError, lmdb.MapFullError)) or no_space_left(self.directory)
        if full and self._reads_as_before(after):
            return _full(error, self.directory)
        return OutcomeUnknown(f"a commit failed and may or may not be on disk: {error}")

    def _reads_as_before(self, after: StoredHead | None) -> bool:
        """Whether the commit that was to lead to `after` is not in the store; of one that appends nothing (None) it
        does not matter. After a failure to write LMDB's own head, which leaves that open, nothing can be read."""
        try:
            with self.read() as reader:
                return reader.head().size < after.frontier.size if after is not None else True
        except StoreError:
            return False

    @contextmanager
    def read(self) -> Iterator[LmdbReader]:
        self._guard.check()
        try:
            with self._env.begin() as txn:
                yield LmdbReader(self._tables, txn)
        except lmdb.Error as error:
            raise _meaning(error, self.directory) from error

    def copy(self) -> LmdbCopy:
        self._guard.check()
        try:
            return LmdbCopy(self._env, self._tables, self.directory)
        except lmdb.Error as error:
            raise _meaning(error, self.directory) from error

    def room_for_new_work(self, size: int = 0) -> bool:
        grown = self._env.info()["last_pgno"] * self._page_size
        wanted = SPREAD * size
        if grown + wanted < self._map_size // 4:  # whatever the jobs are, the rest is enough to finish them
            return True
        wanted += self._map_size // RESERVE_PARTS + FINISH_BYTES * self._asked(self._unfinished)
        if grown + wanted < self._map_size:
            return True
        return self._asked(self._tables.pages) * self._page_size + wanted < self._map_size

    def _asked(self, ask: Callable[[lmdb.Transaction], int]) -> int:
        """A number of the open transaction, or of the store when there is none."""
        if self._open is not None:
            return ask(self._open[0])
        with self._env.begin() as txn:
            return ask(txn)

    def _unfinished(self, txn: lmdb.Transaction) -> int:
        """How many jobs have not ended: those that wait and those that run."""
        return sum(txn.stat(self._tables.by_table[table][0])["entries"] for table in (READY, EXPIRIES))

    def maintain(self) -> None:
        """Free the reader slots of processes that died, which would keep old pages from being used again; and let go
        of the map's resident pages when they are many."""
        self._guard.check()
        self._env.reader_check()
        release_pages(self._data_file)

    def seal(self, before: int, pause: Callable[[], None]) -> bool:
        """See store.contract.SealsLog."""
        self._guard.check()
        return seal_next(self.read, self._tables, before, pause)

    def empty(self) -> bool:
        """See store.contract.SealsLog."""
        self._guard.check()
        if self._open is not None:
            raise RuntimeError("a write transaction is open")
        txn = self._env.begin(write=True)
        try:
            some = empty_next(txn, self._tables)
        except lmdb.Error as error:
            txn.abort()
            raise _meaning(error, self.directory) from error
        except BaseException:
            txn.abort()
            raise
        try:
            txn.commit()
        except lmdb.Error as error:
            raise self._failed_commit(error, None) from error
        return some

    def close(self) -> None:
        if self._open is not None:
            self.abort()
        self._env.close()
        self._lock.release()


def _meaning(error: lmdb.Error, directory: Path) -> StoreError:
    """An error of LMDB outside of a commit as one of the contract."""
    match error:
        case lmdb.MapFullError() | lmdb.DiskError():
            return _full(error, directory)
        case lmdb.CorruptedError() | lmdb.PageNotFoundError():
            return Corrupt(f"{directory}/data.mdb is damaged: {error}")
        case lmdb.PanicError():
            return Failed(f"a commit to the store in {directory} failed before ({error}); open it again")
    return StoreError(f"the store in {directory} cannot be used: {error}")


def _full(error: lmdb.Error, directory: Path) -> StorageFull:
    if isinstance(error, lmdb.MapFullError):
        full = f"the map of the store in {directory} is full ({error})"
        return StorageFull(f"{full}; restart with a larger --map-size")
    full = f"the disk of the store in {directory} is full ({error})"
    return StorageFull(f"{full}; make room, nothing else is needed")


def _assert_durable(env: lmdb.Environment) -> None:
    flags = env.flags()
    if not (flags["sync"] and flags["metasync"]) or flags["writemap"] or flags["map_async"]:
        raise StoreError(f"the environment is open without full durability: {flags}")


def _check_format(env: lmdb.Environment, directory: Path) -> None:
    """Refuse what another program or a newer eventjobs wrote; give an empty environment its format and empty head."""
    with env.begin() as txn:
        empty = txn.stat(env.open_db(None, txn=txn, create=False))["entries"] == 0
        try:
            meta = None if empty else env.open_db(META.encode(), txn=txn, create=False)
        except (lmdb.NotFoundError, lmdb.IncompatibleError) as error:
            raise StoreError(f"{directory}/data.mdb is an LMDB file of another program") from error
        stored = None if empty else txn.get(FORMAT_KEY, db=meta)
    if empty:
        with env.begin(write=True) as txn:
            meta = env.open_db(META.encode(), txn=txn)
            for key, value in (
                (FORMAT_KEY, msgspec.msgpack.encode(WHOLE_FORMAT)),
                (HEAD_KEY, StoredHead(0, Frontier()).encode()),
            ):
                txn.put(key, seal(key, value), db=meta)
        return
    if stored is None:
        raise StoreError(f"{directory}/data.mdb is an LMDB file of another program")
    version = decode_format(stored)
    if version > FORMAT_VERSION:
        raise StoreError(
            f"the store in {directory} has format {version}, this eventjobs knows up to {FORMAT_VERSION}; "
            "use a newer one"
        )


def _check_end(reader: LmdbReader, tables: Tables, txn: lmdb.Transaction) -> None:
    """The head must stand for the log's last record: the cheap part of a verification, done at every start."""
    size = reader.stored_head().frontier.size
    archived = archived_size(txn, tables.meta)
    tables.archive.check_reaches(archived)
    tables.archive.check_files()
    with txn.cursor(db=tables.log) as cursor:
        first = key_position(cursor.key()) if cursor.first() else archived + 1
        last = key_position(cursor.key()) if cursor.last() else 0
    if first != archived + 1:
        raise Corrupt(f"the log begins at position {first}, but should at {archived + 1}")
    if last != size:
        raise Corrupt(f"the log ends at position {last}, but its head says {size}")
    if size:
        reader.record(size)
