"""A bit that turned on the disk: whatever reads it says so, and nothing answers wrongly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import frozen
from structlog.testing import capture_logs

from eventjobs.projections import dead_list, history, listing, stats
from eventjobs.store.contract import Corrupt
from eventjobs.store.indexes import text_digest
from eventjobs.store.keys import uuid_bytes
from eventjobs.testing import builders as b

NOW = b.at(10)
RAN_OUT = b.at(100)


@frozen
class Question:
    """Something that is asked of a store: of a reader and, where it decides, of a transaction."""

    database: str
    ask: Callable


QUESTIONS = {
    "head": Question("meta", lambda txn: txn.head()),
    "record": Question("log", lambda txn: [txn.record(position) for position in range(1, txn.head().size + 1)]),
    "records": Question("log", lambda txn: txn.records(0, 1_000)),
    "content": Question(
        "contents",
        lambda txn: [
            txn.content(ref)
            for number in range(1, 8)
            for job in [txn.job(b.an_id(number))]
            for ref in (job.spec.payload, job.result, job.error)
            if ref is not None
        ],
    ),
    "job": Question("projection/jobs", lambda txn: [txn.job(b.an_id(number)) for number in range(1, 8)]),
    "candidates": Question("projection/ready", lambda txn: txn.candidates(None, None, b.at(2_000), 100)),
    "next due": Question("projection/due", lambda txn: [txn.next_due(0), txn.next_due(b.at(500))]),
    "next expiry": Question("projection/expiries", lambda txn: txn.next_expiry()),
    "expired": Question("projection/expiries", lambda txn: txn.expired(RAN_OUT, 100)),
    "key holder": Question("projection/idempotency_keys", lambda txn: txn.key_holder("key")),
    "grants": Question("projection/lease_requests", lambda txn: txn.grants(b.WORKER, "request-5", NOW)),
    "listing": Question(
        "projection/listing",
        lambda txn: listing.page(txn, state=None, kind=None, queue=None, below=None, limit=100),
    ),
    "dead list": Question("projection/dead_list", lambda txn: dead_list.page(txn, kind=None, queue=None, limit=100)),
    "history": Question(
        "projection/history", lambda txn: [history.positions(txn, b.an_id(number)) for number in range(1, 8)]
    ),
    "stats, jobs": Question("projection/stats_jobs", lambda txn: stats.read(txn)),
    "stats, totals": Question("projection/stats_totals", lambda txn: stats.read(txn)),
}


def flipped(value: bytes, bit: int) -> bytes:
    place = bit // 8 % len(value)
    return value[:place] + bytes([value[place] ^ 1 << bit % 8]) + value[place + 1 :]


def asked(store, question: Question) -> object:
    """What the store answers within a transaction, which reads as readers do and more."""
    try:
        return question.ask(store.engine.begin())
    finally:
        store.engine.abort()


def bits(value: bytes, number: int) -> list[int]:
    """A few bits of a value: in its checksum, at its start, in its middle, at its end."""
    spots = [0, 31, 32, len(value) * 4, len(value) * 8 - 1]
    return [spots[number % len(spots)], spots[(number + 2) % len(spots)]]


def damage_met(store, question: Question, right: object) -> str | None:
    """What the store says of its damage; None when it gives the right answer all the same."""
    try:
        store.open()
        answer = asked(store, question)
    except Corrupt as error:
        return str(error)
    assert answer == right
    return None


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_flipped_bit_is_found_when_it_is_read(store, name):
    """With one bit of a value turned, a question gives the answer it gave before or says Corrupt; asked for that
    very value, it says Corrupt."""
    question = QUESTIONS[name]
    store.open()
    store.story()
    right = asked(store, question)
    assert right
    found = 0
    rows = store.rows()[question.database]
    for number, (key, value) in enumerate(rows.items()):
        for bit in bits(value, number):
            with store.raw(write=True) as txn:
                txn.put(key, flipped(value, bit), db=store.database(question.database, txn))
            place = damage_met(store, question, right)
            assert place is None or key.hex() in place, "another place is named"
            found += place is not None
            with store.raw(write=True) as txn:
                txn.put(key, value, db=store.database(question.database, txn))
    assert found, "no damage was ever met"
    if name not in ("head", "key holder", "next expiry", "grants"):  # those read one row of several
        assert found == 2 * len(rows)


def test_a_swapped_value_is_found(store):
    """Two job rows that changed places are found, although each is whole."""
    store.open()
    store.enqueue()
    store.enqueue()
    rows = list(store.rows()["projection/jobs"].items())
    with store.raw(write=True) as txn:
        for (key, _), (_, value) in zip(rows, reversed(rows), strict=True):
            txn.put(key, value, db=store.database("projection/jobs", txn))
    store.open()
    for number in (1, 2):
        with store.engine.read() as reader, pytest.raises(Corrupt, match="jobs: the value under key"):
            reader.job(b.an_id(number))


def test_a_damaged_job_row_stands_in_nobodys_way(store):
    """Others are leased, and their leases end, past a damaged row, which is told of; the next start makes it anew."""
    store.open()
    jobs = [store.enqueue(priority=9), store.enqueue(), store.enqueue(priority=8)]
    leased = store.lease(max_jobs=1)
    assert [job.id for job in leased] == [jobs[0].id]
    with store.raw(write=True) as txn:
        database = store.database("projection/jobs", txn)
        for job in (jobs[0], jobs[2]):
            key = uuid_bytes(job.id)
            txn.put(key, flipped(txn.get(key, db=database), 40), db=database)
    store.open()
    with capture_logs() as lines:
        others = store.lease(max_jobs=5, duration=1)
        assert [job.id for job in others] == [jobs[1].id]
        with store.commit() as handler:
            assert handler.expire(b.at(1_000), 10) == 1
    assert {line["job_id"] for line in lines if line["event"] == "damaged_job_row"} == {jobs[0].id, jobs[2].id}
    store.open()
    with store.commit() as handler:
        assert handler.expire(b.at(1_000), 10) == 1
    assert store.lease(max_jobs=5, now=b.at(1_000))[0].id == jobs[0].id


def delete(store, database: str, key: bytes) -> None:
    with store.raw(write=True) as txn:
        assert txn.delete(key, db=store.database(database, txn))
    store.open()


def test_a_missing_record_is_found(store):
    """A hole in the log is named by every read that passes it."""
    store.open()
    for _ in range(5):
        store.enqueue()
    delete(store, "log", (3).to_bytes(8))
    with store.engine.read() as reader:
        assert len(reader.records(3, 10)) == 2 and len(reader.records(0, 2)) == 2
        for after, limit in ((0, 3), (0, 100), (2, 1)):
            with pytest.raises(Corrupt, match="log: position 3 is missing"):
                reader.records(after, limit)


def test_a_missing_content_is_found(store):
    """A content that an event brought and that is not there is no null."""
    store.open()
    job = store.enqueue()
    delete(store, "contents", (1).to_bytes(8))
    with store.engine.read() as reader, pytest.raises(Corrupt, match="content of position 1 is missing"):
        reader.content(job.spec.payload)


def test_an_index_that_leads_nowhere_is_found(store):
    """A job that an index names and that is not there is no job to be left out in silence."""
    store.open()
    store.enqueue(idempotency_key="key", priority=1)
    store.enqueue()
    store.lease()
    for row in list(store.rows()["projection/jobs"]):
        with store.raw(write=True) as txn:
            txn.delete(row, db=store.database("projection/jobs", txn))
    store.open()
    for ask in (lambda txn: txn.candidates(None, None, NOW, 10), lambda txn: txn.expired(RAN_OUT, 10)):
        with capture_logs() as lines:
            assert asked(store, Question("", ask)) == []
        assert [line["event"] for line in lines] == ["damaged_job_row"]
    with pytest.raises(Corrupt, match="key names job"):
        asked(store, Question("", lambda txn: txn.key_holder("key")))


def test_a_row_that_must_be_there_and_is_not_stops_the_command(store):
    """A lease that finds its row of the ready order gone is not written over the gap."""
    store.open()
    job = store.enqueue()
    (row,) = store.rows()["projection/ready"]
    delete(store, "projection/ready", row)
    with pytest.raises(Corrupt, match="ready: a row that must be there is missing"):
        store.execute(b.cancel(job.id))
    with store.engine.read() as reader:
        assert reader.head().size == 1


def test_a_damaged_key_digest_leads_to_no_other_job(store):
    """The holder of a key is the job that the key's own row names."""
    store.open()
    store.enqueue(idempotency_key="one")
    store.enqueue(idempotency_key="two")
    rows = store.rows()["projection/idempotency_keys"]
    one, two = text_digest("one"), text_digest("two")
    with store.raw(write=True) as txn:
        txn.put(one, rows[two], db=store.database("projection/idempotency_keys", txn))
    store.open()
    with pytest.raises(Corrupt):
        asked(store, Question("", lambda txn: txn.key_holder("one")))
