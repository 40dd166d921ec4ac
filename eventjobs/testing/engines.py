"""Every engine there is, as tests open them: the one list that the suites of engines go through."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from eventjobs.domain.projection import Projection
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Engine
from eventjobs.store.indexes import INDEXES
from eventjobs.store.lmdb.engine import LmdbEngine
from eventjobs.store.lmdb.guards import DirectoryLock
from eventjobs.store.memory import MemoryEngine
from eventjobs.store.postgres.engine import PostgresEngine
from eventjobs.store.postgres.rebuild import kept_as_rows
from eventjobs.testing.folding import newer
from eventjobs.testing.postgres import another_place, database_of

SMALL_MAP = 64 << 20


@frozen
class EngineKind:
    """How an engine is opened on a directory that is its own, with read models.

    `indexes` are those of INDEXES that it keeps as tables, to be read like a read model's. Of a durable engine, which
    is the same when it is opened anew, `open_grown` opens it as if the rule of every projection had changed so many
    times, and `crashed` makes in an empty directory what a crash at this moment would leave. A `slow` one takes part in
    fewer of the long runs.
    """

    open: Callable[[Path, Sequence[Projection]], Engine]
    indexes: tuple[Projection, ...] = ()
    open_grown: Callable[[Path, int], Engine] | None = None
    crashed: Callable[[Path, Path], None] | None = None
    slow: bool = False

    @property
    def durable(self) -> bool:
        """Whether its content is there again when it is opened anew."""
        return self.open_grown is not None


def _lmdb(directory: Path, projections: Sequence[Projection]) -> LmdbEngine:
    directory.mkdir(exist_ok=True)
    return LmdbEngine(directory, DirectoryLock(directory), projections, SMALL_MAP)


def _postgres(directory: Path, projections: Sequence[Projection]) -> PostgresEngine:
    return PostgresEngine(database_of(directory), projections, own_clock=False, notify=False)


def _lmdb_after_a_crash(directory: Path, left: Path) -> None:
    shutil.copy(directory / "data.mdb", left / "data.mdb")


ENGINES: dict[str, EngineKind] = {
    "memory": EngineKind(lambda directory, read_models: MemoryEngine(tuple(read_models))),
    "lmdb": EngineKind(
        lambda directory, read_models: _lmdb(directory, (*INDEXES, *read_models)),
        indexes=INDEXES,
        open_grown=lambda directory, by: _lmdb(directory, newer((*INDEXES, *READ_MODELS), by)),
        crashed=_lmdb_after_a_crash,
    ),
    "postgres": EngineKind(
        lambda directory, read_models: _postgres(directory, (*INDEXES, *read_models)),
        indexes=kept_as_rows(INDEXES),
        open_grown=lambda directory, by: _postgres(directory, newer((*INDEXES, *READ_MODELS), by)),
        crashed=another_place,
        slow=True,
    ),
}
