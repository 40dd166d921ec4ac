"""Events of an older format are read as those of the newest; newer ones are refused. Texts and hashes stay as they are.

There is no older format yet: here, cancellations have one of the past, in which the reason was called why.
"""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec
import pytest
from attrs import evolve

from eventjobs.domain.events import JobCanceled
from eventjobs.projections import READ_MODELS
from eventjobs.store import codec
from eventjobs.store.contract import StoreError
from eventjobs.store.ingest import ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.answers import answers
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
