"""Events of an older format are read as those of the newest; newer ones are refused. Texts and hashes stay as they are.

There is no older format yet: here, cancellations have one of the past, in which the reason was called why.
"""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec
import pytest
from attrs import evolve

from eventjobs.domain.events import EVENT_TYPES, JobCanceled
from eventjobs.projections import READ_MODELS
from eventjobs.store import codec
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.contract import StoreError
from eventjobs.store.ingest import ingest
from eventjobs.store.lmdb import LmdbEngine, open_engine
from eventjobs.store.lmdb import engine as engine_of_stores
from eventjobs.store.lmdb import snapshot as snapshots
from eventjobs.store.lmdb.compact import compact
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.store.lmdb.tables import ARCHIVED_FORMAT, EVENT_FORMATS, FORMAT_VERSION, format_of
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing.answers import answers
from eventjobs.testing.driver import Driver
from eventjobs.tools.backup.copying import copy_directory
from eventjobs.tools.source import Entry, open_source
from eventjobs.tools.verify.report import Outcome, Report
from eventjobs.tools.verify.verify import verify

MAP_SIZE = 64 << 20
CANCELED = b'"type":"job_canceled","format_version":1'


def found(data: Path) -> Report:
    """What verify finds."""
    return verify(data, None, False, lambda what, done, total: None)


@pytest.fixture
def entries(data) -> list[Entry]:
    """The log of the store with the reasons of cancellations called why."""
    with open_source(data) as source:
        log = [
            evolve(entry, text=entry.text.replace(b'"reason":', b'"why":')) if CANCELED in entry.text else entry
            for entry in source.entries()
        ]
    assert sum(b'"why":' in entry.text for entry in log) > 3
    return log


@pytest.fixture
def third_format(monkeypatch):
    """Cancellations are at their third format, and can be lifted to it in two steps."""
    monkeypatch.setattr(JobCanceled, "format_version", 3)
    monkeypatch.setitem(codec.UPCASTERS, ("job_canceled", 1), lambda data: {"because": data["why"]})
    monkeypatch.setitem(codec.UPCASTERS, ("job_canceled", 2), lambda data: {"reason": data["because"]})


def test_an_older_event_is_lifted_step_by_step(data, entries, third_format, tmp_path):
    """The store of a log with older events answers as the other does, verifies, and has the texts as they were."""
    engine, other = (
        open_engine(tmp_path / "old", READ_MODELS, MAP_SIZE, force_filesystem=True),
        MemoryEngine(READ_MODELS),
    )
    ingest(engine, entries)
    ingest(other, entries)
    said = answers(engine)
    engine.close()
    assert said == answers(other)
    assert any(job["state"] == "canceled" for job in said["jobs"].values())
    with open_source(tmp_path / "old") as source:
        assert list(source.entries()) == entries
        reasons = {record.event.reason for record in source.records() if isinstance(record.event, JobCanceled)}
    assert reasons == {"no"}
    assert found(tmp_path / "old").outcome is Outcome.SOUND


def test_an_event_of_a_format_there_never_was_is_damage(data, monkeypatch):
    """Nothing is made of it, and verify names it."""
    monkeypatch.setattr(JobCanceled, "format_version", 2)
    report = found(data)
    assert report.outcome is Outcome.DAMAGED
    faults = next(check.faults for check in report.checks if check.name == "records")
    assert {fault.sort for fault in faults} == {"record_malformed"}
    assert "is a job_canceled of format 1, which there never was" in faults[0].text


def test_a_newer_event_is_not_checked_and_not_taken_in(entries, tmp_path):
    """What and which version is said; that is no damage."""
    newer = [evolve(e, text=e.text.replace(CANCELED, CANCELED[:-1] + b"7")) for e in entries]
    position = next(e.position for e in newer if b"7," in e.text and b"job_canceled" in e.text)
    words = rf"record {position} is a job_canceled of format 7, .* knows formats up to 1; use that version"
    engine = open_engine(tmp_path / "new", READ_MODELS, MAP_SIZE, force_filesystem=True)
    with pytest.raises(StoreError, match=words):
        ingest(engine, newer)
    engine.close()
    unknown = evolve(newer[0], text=newer[0].text.replace(b'"job_enqueued"', b'"job_praised"'))
    with pytest.raises(StoreError, match="a job_praised of format 1, .* knows no such event"):
        unknown.record()


@pytest.mark.parametrize("ending", [b'"job_praised","format_version":1', b'"job_leased","format_version":2'])
def test_a_store_with_newer_events_is_left_as_it_is(data, monkeypatch, ending):
    """A store whose newest record is of a newer format is not opened, and verify says what it did not look at."""
    rewritten = rewrite_last(data, ending)
    with pytest.raises(StoreError, match="which a newer eventjobs wrote"):
        open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    report = found(data)
    records = next(check for check in report.checks if check.name == "records")
    assert records.faults == [] and "newer eventjobs" in records.unchecked
    assert (data / "data.mdb").read_bytes() == rewritten


def rewrite_last(data: Path, kind: bytes) -> bytes:
    """Give the last record another type and format, as a newer program would have; the file after that."""
    with lmdb.open(str(data), max_dbs=128, map_size=MAP_SIZE) as env, env.begin(write=True) as txn:
        log = env.open_db(b"log", txn=txn)
        with txn.cursor(db=log) as cursor:
            cursor.last()
            key, stored = cursor.item()
        text = stored[4:].replace(b'"job_leased","format_version":1', kind)
        assert text != stored[4:]
        txn.put(key, codec.seal(key, text), db=log)
    return (data / "data.mdb").read_bytes()


def test_a_newer_store_is_not_looked_at(data):
    """Its format is said, and it is left as it is."""
    with lmdb.open(str(data), max_dbs=128, map_size=MAP_SIZE) as env, env.begin(write=True) as txn:
        txn.put(b"format", codec.seal(b"format", msgspec.msgpack.encode(9)), db=env.open_db(b"meta", txn=txn))
    before = (data / "data.mdb").read_bytes()
    for look in (open_source, found):
        with pytest.raises(NoStore, match="has format 9, this eventjobs knows up to"), look(data):
            pass
    with pytest.raises(StoreError, match="has format 9, this eventjobs knows up to"):
        open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    assert (data / "data.mdb").read_bytes() == before


FIRST_EVENTS = {
    "job_enqueued", "job_leased", "lease_renewed", "lease_released", "lease_expired", "job_completed", "attempt_failed",
    "job_died", "job_canceled", "job_requeued", "contents_erased", "job_retired", "idempotency_key_forgotten",
}  # fmt: skip


def test_every_later_event_came_with_a_format():
    """What is not among the events of the first format is named with the format that it came with."""
    events = {(name, version) for name, cls in EVENT_TYPES.items() for version in range(1, cls.format_version + 1)}
    assert events == {(name, 1) for name in FIRST_EVENTS} | set(EVENT_FORMATS)
    assert all(ARCHIVED_FORMAT < each <= FORMAT_VERSION for each in EVENT_FORMATS.values())


@pytest.fixture
def downgraded(tmp_path, monkeypatch) -> Path:
    """A store of a program that has an event with a format of its own, deep in a log that goes on in the archive and
    in the file; the tests are run by a program that knows neither."""
    directory = tmp_path / "downgraded"
    (directory / "archive").mkdir(parents=True)
    save_manifest(directory / "archive", Manifest(8))
    with monkeypatch.context() as newer:
        newer.setitem(EVENT_FORMATS, ("job_canceled", 1), 3)
        for place in (engine_of_stores, snapshots):
            newer.setattr(place, "FORMAT_VERSION", 3)
        engine = open_engine(directory, READ_MODELS, MAP_SIZE, force_filesystem=True)
        driver = Driver(engine)
        driver.execute(*[b.enqueue(b.an_id(number)) for number in range(400)])
        assert format_in(engine) == 1
        driver.execute(b.cancel(b.an_id(7)))
        assert format_in(engine) == 3
        driver.execute(*[b.enqueue(b.an_id(number)) for number in range(400, 600)])
        while engine.seal(2**62, lambda: None) or engine.empty():
            pass
        assert (format_in(engine), engine.archive.end) == (3, 512)
        engine.close()
        compact(directory, lambda done, total: None)
        copy_directory(directory, tmp_path / "backup.mdb", lambda what, done, total: None)
    return directory


def format_in(engine: LmdbEngine) -> int:
    with engine._env.begin() as txn:
        return format_of(txn, engine._tables.meta)


def test_a_newer_event_deep_in_the_log_is_refused_before_anything_is_read(downgraded, tmp_path):
    """By every program that opens the store or a backup of it, whichever of its records are in the archive."""
    backup = tmp_path / "backup.mdb"
    before = {path: path.read_bytes() for path in [*downgraded.rglob("*"), backup] if path.is_file()}
    for look in (open_source, found):
        for place in (downgraded, backup):
            with (
                pytest.raises(NoStore, match="has format 3, this eventjobs knows up to 2; use a newer one"),
                look(place),
            ):
                pass
    with pytest.raises(StoreError, match="has format 3, this eventjobs knows up to 2; use a newer one"):
        open_engine(downgraded, READ_MODELS, MAP_SIZE, force_filesystem=True)
    with pytest.raises(NoStore, match="has format 3"):
        compact(downgraded, lambda done, total: None)
    assert {path: path.read_bytes() for path in before} == before
    assert not (downgraded / "data.mdb.partial").exists()
