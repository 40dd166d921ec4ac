"""Projections made anew from the log when a store is opened by other code than wrote it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from eventjobs.domain.projection import EVERY_EVENT, Part, Table
from eventjobs.projections import READ_MODELS
from eventjobs.projections.stats import Statistics
from eventjobs.store.codec import seal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.indexes import INDEXES, JobRows, ReadyOrder
from eventjobs.store.lmdb import engine as engine_module
from eventjobs.store.lmdb import rebuild
from eventjobs.testing import builders as b
from eventjobs.testing.folding import newer

SEEN = Table("seen", (Part.NUMBER,))


class Seen:
    """A read model of its own: which record came when. Refuses to see one twice."""

    name, tables, handles = "seen", (SEEN,), EVERY_EVENT

    def __init__(self, version: int = 1, mark: bytes = b"") -> None:
        self.version, self.mark = version, mark

    def project(self, rows, before, record, after):
        assert rows.row(SEEN, (record.position,)) is None
        assert (before is None) == (record.version == 1)
        assert after.version == record.version and (before is None or before.version == record.version - 1)
        return [(SEEN, (record.position,), self.mark + record.event.type.encode())]


class NewerStatistics(Statistics):
    """The statistics, as if their rule had changed."""

    version = Statistics.version + 1


@pytest.fixture
def small_chunks(monkeypatch):
    """A rebuild commits after every seven records."""
    monkeypatch.setattr(rebuild, "CHUNK_RECORDS", 7)


def seen(engine) -> list[bytes]:
    with engine.read() as reader:
        return [value for _, value in reader.rows(SEEN)]


@pytest.mark.usefixtures("small_chunks")
def test_a_rebuild_gives_the_same_rows(store, monkeypatch):
    """Everything but the log and the contents made anew from them is, byte for byte, what it was."""
    store.open()
    for _ in range(3):
        store.story()
    before = store.rows()
    monkeypatch.setattr(engine_module, "INDEXES", newer(INDEXES))
    store.open(newer(READ_MODELS))
    after = store.rows()
    assert after.pop("meta") != before.pop("meta"), "the versions grew"
    assert after == before
    assert after["log"] and after["projection/jobs"] and not after["rebuild_jobs"]


def test_only_what_is_stale_is_rebuilt(store):
    """A rebuild is told of, with names and size, and touches no projection but the one whose version grew."""
    store.open()
    store.story()
    with capture_logs() as lines:
        store.open(tuple(NewerStatistics() if model.name == "stats" else model for model in READ_MODELS))
    assert [(line["event"], line["projections"]) for line in lines] == [("rebuilding_projections", ["stats"])]


def test_a_store_that_is_up_to_date_is_not_rebuilt(store):
    """Opening with the same code rebuilds nothing."""
    store.open()
    store.story()
    with capture_logs() as lines:
        store.open()
    assert lines == []


def test_a_read_model_that_is_new_is_filled_from_the_log(store):
    """A store written without a read model gains it at the next opening, and keeps it from then on."""
    store.open(())
    store.story()
    engine = store.open([Seen()])
    with engine.read() as reader:
        types = [record.event.type.encode() for record in reader.records(0, 100)]
    assert seen(engine) == types
    store.enqueue()
    assert seen(engine) == [*types, b"job_enqueued"]


@pytest.mark.usefixtures("small_chunks")
def test_a_read_model_that_fell_behind_is_rebuilt(store):
    """A store that was written for a while without a read model has it whole again afterwards."""
    store.open([Seen()])
    store.story()
    store.open(())
    store.story()
    engine = store.open([Seen(mark=b"anew ")])
    with engine.read() as reader:
        assert seen(engine) == [b"anew " + record.event.type.encode() for record in reader.records(0, 100)]


def test_a_newer_projection_is_refused_and_left(store):
    """A read model that newer code wrote is named; nothing is dropped."""
    store.open([Seen(version=3)])
    store.story()
    before = store.rows()
    with pytest.raises(StoreError, match="projection seen has version 3, this eventjobs knows 2; use a newer one"):
        store.open([Seen(version=2)])
    assert store.rows() == before


@pytest.mark.usefixtures("small_chunks")
def test_a_newer_projection_is_refused_before_others_are_rebuilt(store):
    """When one projection is stale and another is newer, neither is touched."""
    store.open([Statistics(), Seen(version=3)])
    store.story()
    before = store.rows()
    with pytest.raises(StoreError, match="projection seen has version 3"):
        store.open([NewerStatistics(), Seen(version=2)])
    assert store.rows() == before


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("stop", [1, 8, 15])
def test_an_interrupted_rebuild_begins_again(store, stop):
    """A rebuild that was stopped, wherever it was, is done from the start at the next opening: nothing counts twice."""
    store.open()
    for _ in range(2):
        store.story()
    whole = store.rows()

    class Stopped(Exception):
        """The process was ended."""

    class Stopping(NewerStatistics):
        def project(self, rows, before, record, after):
            if record.position == stop:
                raise Stopped
            return super().project(rows, before, record, after)

    others = [model for model in READ_MODELS if model.name != "stats"]
    with pytest.raises(Stopped):
        store.open([*others, Stopping()])
    store.open([*others, NewerStatistics()])
    rows = store.rows()
    assert rows.pop("meta") != whole.pop("meta"), "the version grew"
    assert rows == whole


@pytest.mark.usefixtures("small_chunks")
def test_older_code_after_an_interrupted_rebuild_has_its_own_whole(store):
    """Old code that opens a store in which new code's rebuild was stopped rebuilds for itself."""
    store.open([Seen(version=1)])
    store.story()
    wanted = seen(store.engine)

    class Broken(Seen):
        def project(self, rows, before, record, after):
            if record.position == 9:
                raise RuntimeError("stopped")
            return super().project(rows, before, record, after)

    with pytest.raises(RuntimeError, match="stopped"):
        store.open([Broken(version=2)])
    assert seen(store.open([Seen(version=1)])) == wanted


def test_job_rows_and_ready_order_can_be_lost(store, monkeypatch):
    """The tables that decide are projections as well: emptied, they come back, and leasing goes on as it would have."""
    store.open()
    store.story()
    with store.raw(write=True) as txn:
        for name in ("projection/jobs", "projection/ready", "projection/due"):
            txn.drop(store.database(name, txn), delete=False)
    fresh = [type(p.__class__.__name__, (p.__class__,), {"version": 2})() for p in (JobRows(), ReadyOrder())]
    others = [each for each in INDEXES if each.name not in ("jobs", "ready")]
    monkeypatch.setattr(engine_module, "INDEXES", (*fresh, *others))
    store.open()
    assert [job.id for job in store.lease(now=b.at(2_000), max_jobs=9)] == [b.an_id(2), b.an_id(7), b.an_id(6)]


def test_a_log_with_a_hole_cannot_be_folded(store):
    """A rebuild over a log that misses a record stops with the position, and makes nothing up."""
    store.open(())
    store.story()
    with store.raw(write=True) as txn:
        txn.delete((4).to_bytes(8), db=store.database("log", txn))
    with pytest.raises(Corrupt, match="log: position 4 is missing"):
        store.open([Seen()])


def test_a_damaged_progress_row_is_corrupt(store):
    """What a projection has seen is not guessed."""
    store.open([Seen()])
    with store.raw(write=True) as txn:
        txn.put(b"projection:seen", seal(b"projection:other", b"\x92\x01\x00"), db=store.database("meta", txn))
    with pytest.raises(Corrupt, match="meta"):
        store.open([Seen()])
