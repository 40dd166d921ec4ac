"""Making a data directory of a backup: as it is, or up to an earlier point of its log.

All is made in a directory within the new one, under its coordinator's lock, and the store gets its name last: a restore
that was interrupted leaves no store, and the next one begins anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from eventjobs.domain.points import Point
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.contract import StoreError
from eventjobs.store.ingest import ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.datafile import DATA_FILE
from eventjobs.store.lmdb.guards import LOCK_FILE, DirectoryLock
from eventjobs.store.lmdb.snapshot import data_file, in_use, open_snapshot
from eventjobs.store.lmdb.unsealing import unseal_into
from eventjobs.tools.backup.verified import Damaged, Whole, give_name, verified
from eventjobs.tools.points import position_in
from eventjobs.tools.source import open_source
from eventjobs.tools.verify.verify import Progress

WORK = "restore.partial"
"""The directory within the new one in which the store is made."""
PIECE_BYTES = 1 << 20


def restore(backup: Path, directory: Path, until: Point | None, quick: bool, progress: Progress) -> Whole:
    """Make a store in a directory that is empty, or not there. Raises Damaged, StoreError and OSError.

    The backup is only read, and verified before anything is taken from it for good.
    """
    file = data_file(backup)
    if in_use(file):
        raise StoreError(f"a coordinator has {file} open; take a backup of it, and restore that")
    with _place(directory) as work:
        made = work / DATA_FILE
        if until is None:
            _copy(file, made, progress)
            _put_archive_back(file, made, quick, progress)
        else:
            _replay(file, work, until, quick, progress)
        whole = verified(made, quick, progress, backup)
        give_name(made, directory / DATA_FILE)
    return Whole(directory / DATA_FILE, whole.bytes, whole.head)


@contextmanager
def _place(directory: Path) -> Iterator[Path]:
    """A directory to work in, within the new one; what is made of either is gone when it is not to be."""
    there = directory.exists()
    if there and (others := {entry.name for entry in directory.iterdir()} - {WORK, LOCK_FILE}):
        raise StoreError(f"{directory} is not empty ({', '.join(sorted(others)[:3])}); name a directory without files")
    directory.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(directory)
    work = directory / WORK
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        yield work
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        if not there:
            (directory / LOCK_FILE).unlink()
            directory.rmdir()
        raise
    finally:
        lock.release()
    shutil.rmtree(work)


def _copy(file: Path, made: Path, progress: Progress) -> None:
    """Copy the file as it is, byte by byte."""
    total, done = file.stat().st_size, 0
    with file.open("rb") as source, made.open("xb") as target:
        while piece := source.read(PIECE_BYTES):
            target.write(piece)
            done += len(piece)
            progress("copy", done, total)


def _put_archive_back(file: Path, made: Path, quick: bool, progress: Progress) -> None:
    """Put the records that a store has in an archive beside it alone into what is made of it."""
    archive = file.with_name(ARCHIVE_DIRECTORY)
    if file.name == DATA_FILE and archive.is_dir():
        verified(file, quick, progress)
        unseal_into(made, Archive(archive), lambda done, total: progress("archive", done, total))


def _replay(file: Path, work: Path, until: Point, quick: bool, progress: Progress) -> None:
    """Make a store of the first records, as they are, with their contents; everything else follows from them."""
    verified(file, quick, progress)
    with open_source(file) as source:
        size = position_in(source, until)
        engine = open_engine(work, READ_MODELS)
        try:
            entries = islice(source.entries(), size)
            head = ingest(engine, entries, lambda done: progress("records", done, size))
        finally:
            engine.close()
    with open_snapshot(file) as snapshot:
        root = snapshot.reader().root(size)
    if (head.size, head.root) != (size, root):
        raise Damaged(f"{file} is damaged: its first {size:,} records are not those that its tree stands for")
