"""A store that is made of a log which was written elsewhere, and that is there as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import AlreadyOpen, Head, StoreError
from eventjobs.store.flushing import flush
from eventjobs.store.ingest import Written, ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.guards import LOCK_FILE, DirectoryLock


class TargetInUse(StoreError):
    """There is something in the directory already, or another run makes a store there. It is left as it is."""


class NewStore:
    """A data directory, made under a name beside it (`.NAME.new`) and renamed by `finish`; a context manager that drops
    it if it is not finished. What a killed run left under that name is removed by the next.
    """

    def __init__(self, directory: Path) -> None:
        """Raises TargetInUse, and StoreError where no directory can be made. An empty directory may be there."""
        self._directory = directory.absolute()
        self._made = self._directory.with_name(f".{self._directory.name}.new")
        try:
            if self._is_taken():
                raise TargetInUse(f"{directory} is not empty; a store is only made where there is none")
            self._directory.parent.mkdir(parents=True, exist_ok=True)
            self._made.mkdir(exist_ok=True)
            self._clear()
        except AlreadyOpen as error:
            raise TargetInUse(f"another run is making a store in {directory}") from error
        except OSError as error:
            raise StoreError(f"{directory} cannot be made: {error.strerror}") from error
        self._engine = open_engine(self._made, READ_MODELS)

    def _is_taken(self) -> bool:
        there = self._directory.exists() or self._directory.is_symlink()
        return there and (not self._directory.is_dir() or any(self._directory.iterdir()))

    def _clear(self) -> None:
        lock = DirectoryLock(self._made)
        try:
            for path in self._made.iterdir():
                if path.name != LOCK_FILE:
                    path.unlink()
        finally:
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.close()
            shutil.rmtree(self._made)

    def take(self, entries: Iterable[Written]) -> Head:
        """Append records with their contents; the head after the last. Raises StoreError."""
        return ingest(self._engine, entries)

    def finish(self) -> Head:
        """Nothing follows: put the store in its place, on disk. Gives its head. Raises TargetInUse."""
        with self._engine.read() as reader:
            head = reader.head()
        self._engine.close()
        self._engine = None
        try:
            flush(self._made)
            self._made.rename(self._directory)
            flush(self._directory.parent)
        except OSError as error:
            shutil.rmtree(self._made, ignore_errors=True)
            raise TargetInUse(f"{self._directory} cannot be put in its place: {error.strerror}") from error
        return head
