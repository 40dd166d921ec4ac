"""A store that is made of what was written elsewhere, and that is there as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import AlreadyOpen, Head, StoreError
from eventjobs.store.ingest import Written, ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.datafile import DATA_FILE
from eventjobs.store.lmdb.guards import LOCK_FILE, DirectoryLock
from eventjobs.tools.newfile import give_name

WORK = "store.partial"
"""The directory within the new one in which a store is made; what a killed run left there is removed by the next."""


class TargetInUse(StoreError):
    """There is something in the directory already, or another run makes a store there. It is left as it is."""


@contextmanager
def place_for_store(directory: Path) -> Iterator[Path]:
    """A directory to make a store's file in, within the new one, which is empty or not there; it may be a mount point.

    `put` gives the file its name. What else was made is gone at the end, the new directory too if there is no store in
    it. Raises TargetInUse, and StoreError where no directory can be made.
    """
    made = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    try:
        _refuse_taken(directory)
        directory.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except AlreadyOpen as error:
        raise TargetInUse(f"another process makes a store in {directory}, or has one open there") from error
    except OSError as error:
        raise StoreError(f"{directory} cannot be made: {error.strerror}") from error
    work = directory / WORK
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if made and not (directory / DATA_FILE).exists():
            (directory / LOCK_FILE).unlink()
            for path in made:
                path.rmdir()
        lock.release()


def _refuse_taken(directory: Path) -> None:
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise TargetInUse(f"{directory} is no directory; name one that is empty, or none yet")
    if others := {entry.name for entry in directory.iterdir()} - {WORK, LOCK_FILE}:
        names = ", ".join(sorted(others)[:3])
        raise TargetInUse(f"{directory} is not empty ({names}); a store is only made where there is none")


def put(work: Path) -> Path:
    """Put the file that is whole in the directory of `place_for_store` in its place, on disk; where it lies then."""
    file = work.parent / DATA_FILE
    give_name(work / DATA_FILE, file)
    return file


class NewStore:
    """A store that is made record by record. Made by `new_store`."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._engine = open_engine(work, READ_MODELS)

    def take(self, entries: Iterable[Written]) -> Head:
        """Append records with their contents; the head after the last. Raises StoreError."""
        return ingest(self._engine, entries)

    def finish(self) -> Head:
        """Nothing follows: put the store in its place, on disk. Gives its head. Raises StoreError."""
        with self._engine.read() as reader:
            head = reader.head()
        self.close()
        put(self._work)
        return head

    def close(self) -> None:
        """Let go of the file, if that was not done."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


@contextmanager
def new_store(directory: Path) -> Iterator[NewStore]:
    """A store in a directory that is empty or not there; nothing is left of it if it is not finished. Raises what
    place_for_store raises."""
    with place_for_store(directory) as work:
        store = NewStore(work)
        try:
            yield store
        finally:
            store.close()
