"""The engines under the one suite, each made anew for every test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence

import pytest

from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Table
from eventjobs.projections import READ_MODELS, stats_past
from eventjobs.store.contract import Engine
from eventjobs.testing.driver import Driver
from eventjobs.testing.engines import ENGINES

DURABLE = [name for name, kind in ENGINES.items() if kind.durable]
"""Engines whose content is there again when they are opened anew."""

OpenEngine = Callable[..., Engine]


SNAPSHOT_RECORDS = 16
"""So few that a test of some hundred records has several snapshots of the statistics."""


@pytest.fixture(autouse=True, scope="module")
def snapshots_are_taken() -> Iterator[None]:
    """Every table of every read model gets rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_past, "SNAPSHOT_RECORDS", SNAPSHOT_RECORDS)
        yield


class Scripted:
    """A projection that does what it is told next: every kind of table, and any change of it."""

    name = "scripted"
    version = 1
    handles = EVERY_EVENT

    def __init__(self) -> None:
        self.names = Table("scripted_names", (Part.NAME, Part.NAME, Part.NUMBER))
        self.numbers = Table("scripted_numbers", (Part.NUMBER, Part.NUMBER))
        self.ids = Table("scripted_ids", (Part.UUID, Part.NUMBER))
        self.digests = Table("scripted_digests", (Part.DIGEST,))
        self.counts = Table("scripted_counts", (Part.NAME, Part.NUMBER), counters=True)
        self.firsts = Table("scripted_firsts", (Part.NUMBER,), first_stays=True)
        self.tables = (self.names, self.numbers, self.ids, self.digests, self.counts, self.firsts)
        self.next: list[Change] = []
        self.seen: list[tuple] = []

    def project(self, rows, before, record, after) -> list[Change]:
        self.seen.append((before, record, after))
        changes, self.next = self.next, []
        return changes


def opener(name: str, tmp_path, request) -> OpenEngine:
    """Opens the engine of that name, in the same place each time; all are closed when the test ends."""
    opened: list[Engine] = []

    def open_it(read_models: Sequence = READ_MODELS) -> Engine:
        while opened:
            opened.pop().close()
        opened.append(ENGINES[name].open(tmp_path / name, tuple(read_models)))
        return opened[-1]

    def clean() -> None:
        for engine in opened:
            engine.close()
        shutil.rmtree(tmp_path / name, ignore_errors=True)

    request.addfinalizer(clean)
    return open_it


@pytest.fixture(params=list(ENGINES))
def open_engine_again(request, tmp_path) -> OpenEngine:
    """Closes the engine of the test, if it is open, and opens it with the read models given."""
    return opener(request.param, tmp_path, request)


@pytest.fixture
def engine(open_engine_again) -> Engine:
    """An empty engine that keeps the read models."""
    return open_engine_again()


@pytest.fixture
def driver(engine) -> Driver:
    return Driver(engine)


@pytest.fixture(params=DURABLE)
def reopen(request, tmp_path) -> OpenEngine:
    """As `open_engine_again`, for the engines that outlive their process."""
    return opener(request.param, tmp_path, request)


@pytest.fixture
def every_engine(request, tmp_path) -> dict[str, Engine]:
    """All engines side by side."""
    return {name: opener(name, tmp_path, request)() for name in ENGINES}


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


def content_of(engine: Engine) -> dict:
    """Everything that can be read of an engine with the read models: for comparing states as a whole."""
    with engine.read() as reader:
        records = reader.records(0, 1_000_000)
        jobs = {record.job_id: reader.job(record.job_id) for record in records}
        refs = {ref for job in jobs.values() for ref in (job.spec.payload, job.result, job.error) if ref is not None}
        return {
            "head": reader.head(),
            "records": records,
            "jobs": jobs,
            "contents": {ref.position: reader.content(ref) for ref in refs},
            "rows": {table.name: list(reader.rows(table)) for model in READ_MODELS for table in model.tables},
            "due": reader.next_due(records[-1].time if records else 0),
            "expiry": reader.next_expiry(),
        }


@pytest.fixture
def whole() -> Callable[[Engine], dict]:
    return content_of
