"""Stores with a past, and hands that damage them: with the checksums left as they were, or put right."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from eventjobs.domain import events as e
from eventjobs.domain.commands import COORDINATOR, Actor
from eventjobs.domain.content import Content
from eventjobs.domain.events import Event
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection
from eventjobs.projections import READ_MODELS, stats_past
from eventjobs.store.codec import seal
from eventjobs.store.contract import Head
from eventjobs.store.lmdb import LmdbEngine, open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import JOBS, find, live, retain
from eventjobs.tools.verify.report import Report
from eventjobs.tools.verify.verify import verify

ACTORS = {
    e.JobEnqueued: b.PRODUCER_ACTOR,
    e.LeaseExpired: COORDINATOR,
    e.JobCanceled: b.OPERATOR_ACTOR,
    e.JobRequeued: b.OPERATOR_ACTOR,
}
"""Who does what is not done by workers."""
MAP_SIZE = 64 << 20
SNAPSHOT_RECORDS = 250
"""In `rich_store`."""


class Store:
    """A store in a directory: opened to go on with it, or taken by its bytes to damage it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "data.mdb"

    @contextmanager
    def engine(self, read_models: Sequence[Projection] = READ_MODELS) -> Iterator[LmdbEngine]:
        engine = open_engine(self.directory, read_models, MAP_SIZE, force_filesystem=True)
        try:
            yield engine
        finally:
            engine.close()

    def head(self) -> Head:
        with self.engine() as engine, engine.read() as reader:
            return reader.head()

    def append(
        self, event: Event, job: Job | None, job_id: str, now: int, content: Content | None = None,
        read_models: Sequence[Projection] = READ_MODELS, actor: Actor | None = None,
    ) -> None:  # fmt: skip
        """Write an event that nobody decided, with everything that goes with it: checksums, tree and tables. The actor
        is one of those who may do that, if none is given."""
        with self.engine(read_models) as engine:
            engine.begin().append(job, event, job_id, now, actor or ACTORS.get(type(event), b.WORKER_ACTOR), content)
            engine.commit()

    def job(self, number: int) -> Job:
        with self.engine() as engine:
            return find(Driver(engine), number)

    @contextmanager
    def raw(self) -> Iterator[Callable[[str], object]]:
        """The store as LMDB has it: gives a function from a database's name to a `Hand` on it."""
        with lmdb.open(str(self.directory), max_dbs=128, map_size=MAP_SIZE) as env, env.begin(write=True) as txn:
            yield lambda name: Hand(txn, env.open_db(name.encode(), txn=txn))

    def bytes(self) -> dict[str, bytes]:
        """Every file of the directory."""
        return {path.name: path.read_bytes() for path in sorted(self.directory.iterdir())}

    def verify(self, kept_head: Head | None = None, quick: bool = False) -> Report:
        """What a verification finds; it must leave every byte as it was."""
        before = self.bytes()
        report = verify(self.directory, kept_head, quick, lambda what, done, total: None)
        assert self.bytes() == before
        return report


class Hand:
    """Changes rows of one database."""

    def __init__(self, txn: lmdb.Transaction, database: object) -> None:
        self._txn, self._database = txn, database

    def rows(self) -> dict[bytes, bytes]:
        """Values without their checksums."""
        return {key: stored[4:] for key, stored in self._txn.cursor(db=self._database)}

    def put(self, key: bytes, value: bytes) -> None:
        """With the right checksum."""
        self._txn.put(key, seal(key, value), db=self._database)

    def flip(self, key: bytes, place: int = -1) -> None:
        """One bit, with the checksum as it was."""
        stored = bytearray(self._txn.get(key, db=self._database))
        stored[place] ^= 1
        self._txn.put(key, bytes(stored), db=self._database)

    def delete(self, key: bytes) -> None:
        assert self._txn.delete(key, db=self._database)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store, made once."""
    directory = tmp_path_factory.mktemp("template") / "data"
    store = Store(directory)
    with store.engine() as engine:
        driver = Driver(engine)
        live(driver)
        retain(driver)
    return directory


@pytest.fixture(scope="session")
def template_with_snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same past, with snapshots of the statistics in it."""
    directory = tmp_path_factory.mktemp("template") / "data"
    with pytest.MonkeyPatch.context() as patch, Store(directory).engine() as engine:
        patch.setattr(stats_past, "SNAPSHOT_RECORDS", SNAPSHOT_RECORDS)
        driver = Driver(engine)
        live(driver)
        retain(driver)
    return directory


@pytest.fixture
def snapshots_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads or writes a store in this process has snapshots as often as `rich_store` has them."""
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", SNAPSHOT_RECORDS)


@pytest.fixture
def rich_store(template_with_snapshots: Path, snapshots_often: None, tmp_path: Path) -> Store:
    """A copy of the store that has rows in every table, for the test alone."""
    shutil.copytree(template_with_snapshots, tmp_path / "data")
    return Store(tmp_path / "data")


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Store:
    """A copy of it for the test alone."""
    shutil.copytree(template, tmp_path / "data")
    return Store(tmp_path / "data")


@pytest.fixture
def new_store(tmp_path: Path) -> Callable[..., Store]:
    """Makes another store with a past: (name, jobs, subject)."""

    def make(name: str = "other", **more: object) -> Store:
        made = Store(tmp_path / name)
        with made.engine() as engine:
            driver = Driver(engine)
            live(driver, **more)
            retain(driver, more.get("jobs", JOBS))
        return made

    return make
