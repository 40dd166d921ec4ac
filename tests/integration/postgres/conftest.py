"""What the tests of the PostgreSQL engine share: coordinators' writing sides on one database, as plain objects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from eventjobs.api.edge import Edge
from eventjobs.api.intake_request import reader_of
from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.domain.intake import NotEnqueued
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import LeaseNeed, Needs, TryAgain
from eventjobs.store.indexes import INDEXES
from eventjobs.store.merkle import Frontier, leaf_hash
from eventjobs.store.postgres import PostgresEngine, open_engine
from eventjobs.store.postgres.connection import Session
from eventjobs.testing import builders as b
from eventjobs.testing.folding import Fold
from eventjobs.testing.postgres import OwnServer, database_of
from eventjobs.testing.processes import CoordinatorProcess

ATTEMPTS_MAX = 200

read_request = reader_of(Edge(lambda: 0))


def intake_needs(requests: list) -> Needs:
    """What taking requests in asks for."""
    commands = [command for _, command in requests if not isinstance(command, NotEnqueued)]
    return Needs(
        keys=tuple(command.idempotency_key for command in commands if command.idempotency_key is not None),
        asked=tuple((asked.number, asked.job_id) for asked, _ in requests),
    )


class Instance:
    """An engine with the handler over it. Says beforehand what it needs, and tries again when it is broken off."""

    def __init__(self, url: str, **options) -> None:
        self.engine: PostgresEngine = open_engine(url, READ_MODELS, **options)
        self.broken_off = 0

    def run(self, needs: Needs, work: Callable[[Handler], object]) -> object:
        for _ in range(ATTEMPTS_MAX):
            try:
                transaction = self.engine.begin(needs)
                try:
                    answer = work(Handler(transaction, Effects()))
                except BaseException:
                    self.engine.abort()
                    raise
                self.engine.commit()
            except TryAgain:
                self.broken_off += 1
            else:
                return answer
        raise AssertionError(f"broken off {ATTEMPTS_MAX} times in a row")

    def enqueue(self, *commands) -> list:
        keys = tuple(command.idempotency_key for command in commands if command.idempotency_key is not None)
        ids = tuple(command.job_id for command in commands)
        return self.run(Needs(jobs=ids, keys=keys), lambda handler: handler.enqueue(commands))

    def lease(self, limit: int, command=None, queues=None, kinds=None) -> list:
        command = command or b.lease()
        needs = Needs(leases=(LeaseNeed(queues, kinds, limit, command.worker, command.request_id),))
        return self.run(needs, lambda handler: handler.lease(command, queues, kinds, limit)).jobs

    def execute(self, *commands, declared: bool = True) -> list:
        needs = Needs(jobs=tuple(command.job_id for command in commands) if declared else ())
        return self.run(needs, lambda handler: handler.execute(commands))

    def complete(self, jobs: Sequence) -> list:
        return self.execute(*[b.complete(job.id, token=job.lease_token) for job in jobs])

    def asked(self, limit: int = 1_000) -> list:
        """What waits in the intake, with what the edge makes of it."""
        with self.engine.read() as view:
            return [(asked, read_request(asked)) for asked in view.asked(limit, 8 << 20)]

    def take_in(self, limit: int = 1_000, requests: list | None = None) -> list:
        """One step of the intake: what was settled."""
        requests = self.asked(limit) if requests is None else requests
        return self.take_in_with(requests, lambda handler: handler.take_in(requests))

    def take_in_with(self, requests: list, work: Callable[[Handler], list]) -> list:
        """The same, by other work."""
        return self.run(intake_needs(requests), work)

    def expire(self, limit: int = 1_000) -> int:
        return self.run(Needs(expired=limit), lambda handler: handler.expire(0, limit))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty database."""
    return database_of(tmp_path / "postgres")


@pytest.fixture
def make_instance(url):
    """Opens one more coordinator's engine on the database."""
    made: list[Instance] = []

    def make(**options) -> Instance:
        made.append(Instance(url, **options))
        return made[-1]

    yield make
    for instance in made:
        instance.engine.close()


@pytest.fixture
def instances(make_instance) -> list[Instance]:
    """Three coordinators on one database."""
    return [make_instance() for _ in range(3)]


@pytest.fixture
def foreign(url):
    """A connection of somebody else."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def instance(make_instance) -> Instance:
    """One coordinator's engine."""
    return make_instance()


@pytest.fixture
def connect(instance, url):
    """Connections of producers."""
    opened = []

    def open_one(**options):
        opened.append(psycopg.connect(url, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def producer(connect):
    """A connection of a producer, which begins transactions by itself."""
    return connect()


def all_at_once(*works: Callable[[], object]) -> list:
    """The works' answers, each done on a thread of its own, all started together. Raises what the first raised."""
    answers: list[object] = [None] * len(works)
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def do(place: int) -> None:
        start.wait()
        try:
            answers[place] = works[place]()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=do, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return answers


@pytest.fixture
def at_once():
    return all_at_once


def check_log(engine: PostgresEngine) -> list:
    """The records, after a look at all of it: gapless, in order of time, under the head, and folded as stored."""
    with engine.read() as reader:
        head = reader.head()
        records = reader.records(0, head.size)
        texts = reader.record_texts(0, head.size)
        assert [record.position for record in records] == list(range(1, head.size + 1))
        assert [record.time for record in records] == sorted(record.time for record in records)
        frontier = Frontier()
        for text in texts:
            frontier.append(leaf_hash(text))
        assert frontier.root() == head.root == reader.root(head.size)
        fold = Fold((*[each for each in INDEXES if each.name == "idempotency_keys"], *READ_MODELS))
        fold.take(records)
        assert {job_id: reader.job(job_id) for job_id in fold.jobs} == fold.shown
        assert fold.differing(reader) == []
    return records


@pytest.fixture
def sound():
    return check_log


@pytest.fixture
def server() -> Iterator[OwnServer]:
    """A server that may be stopped and started."""
    own = OwnServer()
    own.start()
    yield own
    own.remove()


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[tuple[CoordinatorProcess, CoordinatorProcess]]:
    """Two coordinators over one database."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with (
        CoordinatorProcess(tmp_path / "first", store=postgres_url) as first,
        CoordinatorProcess(tmp_path / "second", store=postgres_url) as second,
    ):
        yield first, second


@pytest.fixture
def lossy(monkeypatch):
    """Breaks the connection at the next commit, after it was done or before; calls with what happens meanwhile."""

    def break_next(done: bool, meanwhile=lambda: None) -> None:
        run = Session.run

        def broken(session, statements):
            if statements[-1][0] != "COMMIT":
                return run(session, statements)
            monkeypatch.setattr(Session, "run", run)
            if done:
                run(session, statements)
            session.connection.close()
            meanwhile()
            raise psycopg.OperationalError("the connection was lost")

        monkeypatch.setattr(Session, "run", broken)

    return break_next
