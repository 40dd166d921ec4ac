"""The store that a coordinator is to serve or a program to look at: a directory, or a database that many share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from eventjobs.cli.exits import CannotServe
from eventjobs.domain.projection import Projection
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Engine, StoreError
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.datafile import DATA_FILE
from eventjobs.store.lmdb.snapshot import in_use, open_snapshot
from eventjobs.store.proofs import ProvesItsLog

if TYPE_CHECKING:
    from eventjobs.store.postgres.filling import Filling
    from eventjobs.store.postgres.outside import Outside


class Store(Protocol):
    """What can be served. `str` of it says where the data are."""

    def served_by_another(self) -> bool:
        """Whether a coordinator has it that lets no second one in."""

    def open(self) -> Engine:
        """Raises StoreError or CannotServe."""


@frozen
class Directory:
    """A directory of this machine. `map_size` in bytes, None for the engine's default."""

    path: Path
    map_size: int | None = None
    force_filesystem: bool = False

    def __str__(self) -> str:
        return str(self.path)

    def served_by_another(self) -> bool:
        return in_use(self.path / DATA_FILE)

    def open(self) -> Engine:
        size = {} if self.map_size is None else {"map_size": self.map_size}
        return open_engine(self.path, READ_MODELS, force_filesystem=self.force_filesystem, **size)


@frozen
class Database:
    """A PostgreSQL database. `notify` has coordinators tell each other of each commit."""

    url: str
    notify: bool = True

    def __str__(self) -> str:
        """The address without what may be secret in it."""
        with needs_psycopg():
            from eventjobs.store.postgres import database_at

        return database_at(self.url)

    def served_by_another(self) -> bool:
        return False

    def open(self) -> Engine:
        with needs_psycopg():
            from eventjobs.store.postgres import open_engine as open_database
        return open_database(self.url, READ_MODELS, notify=self.notify)

    def outside(self, projections: Sequence[Projection] = ()) -> AbstractContextManager[Outside]:
        """The store as it stands now, to be looked at, and the tables of some projections. Raises StoreError where
        there is none; Away."""
        with needs_psycopg(StoreError):
            from eventjobs.store.postgres.outside import open_outside
        return open_outside(self.url, projections)

    def fill(self, in_use: Callable[[str], StoreError]) -> Filling:
        """A store that is to be made there. Raises StoreError, and what `in_use` makes of a text if there is one."""
        with needs_psycopg(StoreError):
            from eventjobs.store.postgres.filling import Filling
        return Filling(self.url, READ_MODELS, in_use)


@contextmanager
def needs_psycopg(problem: type[Exception] = CannotServe) -> Iterator[None]:
    """Says what to do when the package is not there."""
    try:
        yield
    except ImportError as error:
        reason = (
            f"a PostgreSQL store needs the package psycopg ({error}): "
            "pip install '.[postgres]' in the folder with eventjobs' pyproject.toml"
        )
        raise problem(reason) from error


@contextmanager
def open_proofs(place: Path | Database) -> Iterator[ProvesItsLog]:
    """What of a store answers for head and proofs, as it stands now. Raises StoreError."""
    if isinstance(place, Database):
        with place.outside() as store:
            yield store
        return
    with open_snapshot(place) as snapshot:
        yield snapshot.reader()
