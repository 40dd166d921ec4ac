"""A log that was written elsewhere comes out the same in every engine, and one that cannot be is refused."""

from __future__ import annotations

import pytest
from attrs import frozen

from eventjobs.domain.content import Content
from eventjobs.projections import READ_MODELS
from eventjobs.store import ingest as ingesting
from eventjobs.store.contract import Corrupt, Head
from eventjobs.store.ingest import ingest
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live


@frozen
class Entry:
    text: bytes
    content: Content | None


@pytest.fixture(scope="module")
def origin() -> MemoryEngine:
    """An engine with a past."""
    engine = MemoryEngine(READ_MODELS)
    live(Driver(engine))
    return engine


@pytest.fixture(scope="module")
def entries(origin) -> list[Entry]:
    """Its log."""
    state = origin._state
    return [Entry(text, state.contents.get(place)) for place, text in enumerate(state.log, 1)]


def test_a_log_taken_in_is_the_same_log(origin, entries, engine, whole, monkeypatch):
    """Positions, texts, root, contents, jobs and read models are those of the engine that wrote it."""
    monkeypatch.setattr(ingesting, "CHUNK_RECORDS", 100)
    sizes: list[int] = []
    head = ingest(engine, entries, sizes.append)
    assert whole(engine) == whole(origin)
    with engine.read() as reader, origin.read() as original:
        assert head == original.head()
        assert all(reader.record_text(place) == entry.text for place, entry in enumerate(entries, 1))
    assert sizes[0] == 100 and sizes[-1] == len(entries)


def test_the_beginning_of_a_log_has_the_root_it_had_then(origin, entries, engine):
    """Of the first records the root is the one that the whole log proves for that size, and work can go on."""
    head = ingest(engine, entries[:300])
    with origin.read() as original:
        assert head == Head(300, original.root(300))
    assert Driver(engine).execute(b.enqueue(b.an_id(9_999), now=b.at(100_000)))[0].spec.position == 301


def test_no_records_leave_an_empty_log(engine):
    """Nothing taken in is nothing there."""
    assert ingest(engine, []).size == 0


def changed(entry: Entry, old: bytes, new: bytes) -> Entry:
    assert old in entry.text
    return Entry(entry.text.replace(old, new, 1), entry.content)


FAULTS = {
    "left out": (lambda log: [log[0], *log[2:]], "position 2 comes next, but the record is one of position 3"),
    "twice": (lambda log: [log[0], log[0]], "position 2 comes next, but the record is one of position 1"),
    "version": (lambda log: [changed(log[0], b'"version":1', b'"version":2')], "version 2 .* which is not known"),
    "no text": (lambda log: [Entry(b"{", None)], "cannot be read"),
    "older": (lambda log: [log[0], changed(log[1], b'"time":', b'"time":-')], "position 2 is older than"),
    "again": (
        lambda log: [log[0], changed(log[1], b.an_id(2).encode(), b.an_id(1).encode())],
        "position 2 is a job_enqueued of version 1 of job .* which is at version 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_come_next_is_refused(entries, engine, fault):
    """The fault is named, and nothing of the commit is in the log."""
    spoil, says = FAULTS[fault]
    with pytest.raises(Corrupt, match=says):
        ingest(engine, spoil(entries))
    with engine.read() as reader:
        assert reader.head().size == 0
