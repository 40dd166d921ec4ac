"""A store that is opened, closed, damaged and opened again, and programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection
from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import LmdbEngine, open_engine
from eventjobs.testing import builders as b

MAP_SIZE = 64 << 20
PROCESS_SECONDS_MAX = 30


class Store:
    """One directory, at most one open engine, and the ordinary steps of a job, each in a commit of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.engine: LmdbEngine | None = None
        self.jobs = 0

    def open(self, read_models: Sequence[Projection] = READ_MODELS, map_size: int = MAP_SIZE) -> LmdbEngine:
        self.close()
        self.engine = open_engine(self.directory, read_models, map_size, force_filesystem=True)
        return self.engine

    def close(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    @contextmanager
    def commit(self) -> Iterator[Handler]:
        """A handler on a transaction that is committed at the end, or dropped when the block raises."""
        handler = Handler(self.engine.begin(), Effects())
        try:
            yield handler
        except BaseException:
            self.engine.abort()
            raise
        self.engine.commit()

    def enqueue(self, **members: object) -> Job:
        self.jobs += 1
        with self.commit() as handler:
            (reply,) = handler.enqueue([b.enqueue(b.an_id(self.jobs), **members)])
        return reply.job

    def lease(self, **members: object) -> list[Job]:
        max_jobs = members.pop("max_jobs", 1)
        with self.commit() as handler:
            return handler.lease(b.lease(**members), None, None, max_jobs).jobs

    def execute(self, *commands: object) -> list:
        with self.commit() as handler:
            return handler.execute(commands)

    def story(self) -> None:
        """One job of each sort: succeeded, failed, dead, canceled, running, scheduled, waiting with a key."""
        for number in range(5):
            self.enqueue(priority=9 - number, max_attempts=1 if number == 2 else 5)
        first, second, third, fourth, _ = (job.id for job in self.lease(max_jobs=5, request_id=f"request-{self.jobs}"))
        self.execute(b.complete(first), b.fail(second), b.fail(third), b.cancel(fourth, reason="why not"))
        self.enqueue(run_at=b.at(1_000), kind="report")
        self.enqueue(idempotency_key="key", queue="other", payload=None)

    def rows(self) -> dict[str, dict[bytes, bytes]]:
        """Every row of every database of the closed store, as stored."""
        with self.raw() as txn:
            return self._rows(txn)

    def _rows(self, txn: lmdb.Transaction) -> dict[str, dict[bytes, bytes]]:
        found = {}
        for name in txn.cursor(db=self._env.open_db(None, txn=txn)).iternext(values=False):
            found[name.decode()] = dict(txn.cursor(db=self._env.open_db(name, txn=txn, create=False)))
        return found

    @contextmanager
    def raw(self, write: bool = False) -> Iterator[lmdb.Transaction]:
        """A transaction of LMDB itself on the closed store, as another program would have it; see `database`."""
        self.close()
        self._env = lmdb.open(str(self.directory), max_dbs=128, map_size=MAP_SIZE)
        with self._env, self._env.begin(write=write) as txn:
            yield txn

    def database(self, name: str, txn: lmdb.Transaction) -> object:
        return self._env.open_db(name.encode(), txn=txn, create=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty directory for a store."""
    store = Store(tmp_path / "data")
    yield store
    store.close()


def _run(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def run_program() -> Callable[..., str]:
    """Runs a Python program in a process of its own to its good end; gives its output. (text, *arguments)"""
    return _run


@contextmanager
def _started(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def started_program() -> Callable:
    """Starts a Python program in a process of its own, killed at the end of the context. (text, *arguments)"""
    return _started
