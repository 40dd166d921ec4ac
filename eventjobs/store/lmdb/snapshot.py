"""A store seen from outside, for programs that look at it and change nothing, beside a running coordinator or without.

The rule: a store that no coordinator has open is read in place, read-only and without locks; not a byte in its
directory changes. Beside a running coordinator LMDB's reader table (`lock.mdb`) gets an entry for as long as the view
is open; nothing else is touched, and the coordinator is not held up. Pages that it frees meanwhile are not used again
before the view is closed, so a long look is better taken at a copy (`copy_of`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path

import lmdb
import lmdb.verify

from eventjobs.domain.projection import Projection
from eventjobs.store.archive import ARCHIVE_DIRECTORY, PART_RECORDS, Archive
from eventjobs.store.codec import seal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.datafile import DATA_FILE, fault_of_heads, fault_of_length
from eventjobs.store.lmdb.guards import LOCK_FILE
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.residency import release_pages
from eventjobs.store.lmdb.structure import looks_sound
from eventjobs.store.lmdb.tables import (
    ARCHIVED_KEY,
    CONTENTS,
    FORMAT_KEY,
    FORMAT_VERSION,
    LOG,
    MAX_DATABASES,
    META,
    Tables,
    decode_archived_size,
    decode_format,
    position_key,
)

BOTH_HEADS_BYTES = 2 * 65_536
"""What holds LMDB's two heads, whatever the size of a page."""
ROWS_BETWEEN = 4_096
"""How many rows are read before the pages that they lie on are let go: the file may be larger than the memory."""
HEADROOM_BYTES = 4 << 30
"""How much a running coordinator may have let the file grow since its size was asked."""

Rows = Iterator[tuple[bytes, bytes]]
"""Keys and values as stored, checksums and all, in the order of the keys."""


class NoStore(StoreError):
    """There is no store to be looked at, or it is one that this code cannot read."""


def data_file(path: Path) -> Path:
    """The file of the store in a directory, or of a copy that is named itself. Raises NoStore when there is none."""
    try:
        file = path / DATA_FILE if path.is_dir() else path
        size = file.stat().st_size
        with file.open("rb"):
            pass
    except FileNotFoundError as error:
        what = f"{path} has no {DATA_FILE}" if path.exists() else f"{path} does not exist"
        raise NoStore(f"{what}: there is no store") from error
    except OSError as error:
        raise NoStore(f"{path} cannot be read: {error.strerror}") from error
    if size == 0:
        raise NoStore(f"{file} is empty: there is no store")
    return file


def in_use(file: Path) -> bool:
    """Whether a coordinator has the store of this file open. It never has a copy that lies under another name."""
    if file.name != DATA_FILE:
        return False
    try:
        lock = os.open(file.with_name(LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise NoStore(f"whether a coordinator has {file} open cannot be told: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def standing_still(path: Path) -> Iterator[None]:
    """For a long look at the store or copy at a path. Raises NoStore when a coordinator began to write to it meanwhile,
    for one that nobody had open is read without locks: what it said may not have been of one moment."""
    file = data_file(path)
    if in_use(file):
        yield
        return
    before = _head_bytes(file)
    damage: Corrupt | None = None
    try:
        yield
    except Corrupt as error:
        damage = error
    if _head_bytes(file) != before:
        raise NoStore(f"{file} was written to while it was read; do it again") from damage
    if damage is not None:
        raise damage


def _head_bytes(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(BOTH_HEADS_BYTES)


def structural_faults(file: Path) -> list[str]:
    """What is wrong with the structure of a file that nobody writes: pages, trees, lists of free pages.

    The file is read as bytes, without LMDB, so that whatever is in it can do no harm. Raises NoStore when it is no LMDB
    file at all.
    """
    try:
        told = [fault_of_heads(file), fault_of_length(file)]
        if told[0] is None and looks_sound(file):
            return []
        faults = lmdb.verify.verify(str(file), subdir=False)
        return [*filter(None, told if faults else told[:1]), *faults]  # a file may end before pages that are free
    except lmdb.verify.VerifyError as error:
        if "not an LMDB data file" in str(error):
            raise NoStore(f"{file} is not a store of eventjobs: {error}") from error
        return [str(error)]


class Snapshot:
    """One state of a store, whose file is `file`. Made by `open_snapshot`."""

    def __init__(self, env: lmdb.Environment, txn: lmdb.Transaction, file: Path, archive: Path) -> None:
        """`archive` is the directory of the archive, which is looked at when it is needed."""
        self._env, self._txn = env, txn
        self._begin(file, archive)

    def _begin(self, file: Path, archive: Path) -> None:
        self.file, self._archive_directory = file, archive
        self.names = [name.decode("ascii", "replace") for name in self._main_keys()]
        for name in (META, LOG, CONTENTS):
            if name not in self.names:
                raise NoStore(f"{file} is an LMDB file of another program: it has no database {name}")
        self._check_format()

    @cached_property
    def archive(self) -> Archive:
        """The records that have left the file. Raises Corrupt when not all of them are there, StoreError."""
        archive = Archive(self._archive_directory)
        archive.check_reaches(self.archived)
        return archive

    @cached_property
    def archived(self) -> int:
        """How many records, from the first on, have left the file. Raises Corrupt."""
        return decode_archived_size(self.stored(META, ARCHIVED_KEY))

    def _main_keys(self) -> list[bytes]:
        with self._txn.cursor() as cursor:
            return list(cursor.iternext(values=False))

    def _check_format(self) -> None:
        stored = self.stored(META, FORMAT_KEY)
        if stored is None:
            raise NoStore(f"{self.file} is an LMDB file of another program: it has no format")
        version = decode_format(stored)
        if version > FORMAT_VERSION:
            raise NoStore(
                f"{self.file} has format {version}, this eventjobs knows up to {FORMAT_VERSION}; use a newer one"
            )

    def reader(self, projections: Sequence[Projection] = ()) -> LmdbReader:
        """The log as engines read it, and the tables of some projections. Raises NoStore for one that is not there."""
        try:
            return LmdbReader(Tables(self._env, projections, self._txn, self.archive, create=False), self._txn)
        except lmdb.NotFoundError as error:
            raise NoStore(f"{self.file} lacks a database ({error}); start a coordinator on it once") from error

    def log_size(self) -> int:
        """How many records there are, in the file and in the archive."""
        return self.archived + self.count(LOG)

    def log_rows(self, start: int) -> Rows:
        """The rows of the log from a position on, those in the archive as they would lie in the file. Raises Corrupt
        where they break off."""
        position = start
        while position <= self.archived:
            texts = self.archive.texts(position - 1, min(PART_RECORDS, self.archived + 1 - position))
            for text in texts:
                key = position_key(position)
                yield key, seal(key, text)
                position += 1
        yield from self.rows(LOG, position_key(position) if position > 1 else b"")

    def log_row(self, position: int) -> bytes | None:
        """What is stored at a position of the log; raises Corrupt when it cannot be reached."""
        key = position_key(position)
        if 1 <= position <= self.archived:
            return seal(key, self.archive.texts(position - 1, 1)[0])
        return self.stored(LOG, key)

    def stored(self, name: str, key: bytes) -> bytes | None:
        """One value of a database as stored. Raises Corrupt when it cannot be reached."""
        with self._damage_told(name):
            return self._txn.get(key, db=self._database(name))

    def count(self, name: str) -> int:
        """How many rows the database says that it has."""
        with self._damage_told(name):
            return self._txn.stat(self._database(name))["entries"] if name in self.names else 0

    def rows(self, name: str, start: bytes = b"") -> Rows:
        """The rows of a database from a key on; none of one that is not there. Raises Corrupt where they break off."""
        if name not in self.names:
            return
        with self._damage_told(name), self._txn.cursor(db=self._database(name)) as cursor:
            if not (cursor.set_range(start) if start else cursor.first()):
                return
            rows = iter(cursor)
            for row in rows:
                release_pages(self.file.resolve())
                yield row
                yield from islice(rows, ROWS_BETWEEN - 1)

    def _database(self, name: str) -> object:
        return self._env.open_db(name.encode(), txn=self._txn, create=False)

    @contextmanager
    def _damage_told(self, name: str) -> Iterator[None]:
        try:
            yield
        except lmdb.Error as error:
            raise Corrupt(f"{name}: cannot be read on: {error}") from error


def refuse_cut_off(file: Path) -> None:
    """Raise Corrupt for a file that nobody writes and that was cut off, or has a damaged head: reading on in it would
    end the process. Nothing is said of one that is no LMDB file, nor of one that ends before pages that are free."""
    fault = fault_of_heads(file) or fault_of_length(file)
    if fault is not None and (faults := structural_faults(file)):
        raise Corrupt(f"{file} is damaged: {faults[0]}; `eventjobs verify` tells what can be read of it")


@contextmanager
def open_snapshot(path: Path, archive: Path | None = None) -> Iterator[Snapshot]:
    """The store in a directory, or the copy in a file, as it stands now. Raises NoStore or Corrupt.

    `archive` is the directory of its archive, if it does not lie beside the file.
    """
    file = data_file(path)
    try:
        with _environment(file) as env, env.begin() as txn:
            yield Snapshot(env, txn, file, file.with_name(ARCHIVE_DIRECTORY) if archive is None else archive)
    except (lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
        raise Corrupt(f"{file} is damaged: {error}") from error
    except lmdb.Error as error:
        raise NoStore(f"{file} cannot be read: {error}") from error


def copy_of(file: Path, target: Path) -> None:
    """Copy the store of a running coordinator, as of one moment, into a file. Raises NoStore when it cannot be done."""
    try:
        with _environment(file) as env, target.open("wb") as stream:
            env.copyfd(stream.fileno())
    except (lmdb.Error, OSError) as error:
        raise NoStore(f"{file} cannot be copied to {target.parent}: {error}; TMPDIR names another place") from error


@contextmanager
def _environment(file: Path) -> Iterator[lmdb.Environment]:
    locked = in_use(file)
    if not locked:
        refuse_cut_off(file)
    try:
        env = lmdb.open(
            os.fsencode(file.parent if locked else file),
            subdir=locked,
            map_size=file.stat().st_size + HEADROOM_BYTES,
            readonly=True,
            create=False,
            lock=locked,
            max_dbs=2 * MAX_DATABASES,
        )
    except lmdb.InvalidError as error:
        raise NoStore(f"{file} is not a store of eventjobs: {error}") from error
    except lmdb.Error as error:
        raise NoStore(f"{file} cannot be read: {error}") from error
    with env:
        yield env
