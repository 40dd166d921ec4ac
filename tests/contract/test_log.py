"""The log of every engine: positions, versions, what records and contents bring back, and the head."""

from __future__ import annotations

import hashlib

import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.job import ContentRef, DeathCause
from eventjobs.domain.retry import Constant, Exponential, Linear
from eventjobs.store.codec import encode_record
from eventjobs.store.contract import Corrupt, Head
from eventjobs.testing import builders as b

EMPTY_ROOT = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
"""SHA-256 of nothing."""

ODD = 'ünï"\\ \x7f\u2028 \U0001f600'
"""Text that needs care in JSON."""

EVERY_EVENT = [
    b.enqueued(
        kind="a.b_c:d/e@f-g",
        queue="q" * 128,
        priority=-100,
        max_attempts=1000,
        retry_policy=Linear(base=0.1, max_delay=604800, jitter=1),
        idempotency_key=ODD,
        asked_run_at=-62_135_596_800_000_000,
        run_at=-62_135_596_800_000_000,
    ),
    b.enqueued(retry_policy=Exponential(base=0, max_delay=0.000001), asked_delay=0, payload=None),
    b.enqueued(retry_policy=Constant(base=3), run_at=253_402_300_799_999_999),
    b.leased(worker=ODD, token=2**63 - 1, attempt=1000, request_id=ODD),
    b.renewed(expires_at=2**62),
    b.released(),
    b.expired(),
    b.completed(result=None),
    b.completed(),
    b.failed(),
    *[b.died(cause=cause, error=None if cause is DeathCause.LEASE_EXPIRED else b.ERROR) for cause in DeathCause],
    b.canceled(reason=ODD),
    b.canceled(),
    b.erased(payload=1, result=3, errors=(5, 7), reason=ODD),
    b.erased(payload=None),
    b.retired(payload=None, rule=ODD),
    b.key_forgotten(rule=ODD),
    b.requeued(),
]


def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + tree_root(leaves[:split]) + tree_root(leaves[split:])).digest()


def test_an_empty_log(engine):
    """No records, no jobs, and the head RFC 6962 gives to nothing."""
    with engine.read() as reader:
        assert reader.head() == Head(0, EMPTY_ROOT)
        assert reader.records(0, 10) == [] and reader.record(1) is None
        assert reader.job(b.JOB_ID) is None
        assert reader.next_due(0) is None and reader.next_expiry() is None
    assert engine.begin().last_time == 0
    engine.abort()


def test_positions_and_versions_are_gapless(driver):
    """Positions count the log, versions each job's own records, from 1, over one commit and over many."""
    ids = [b.an_id(number) for number in (1, 2, 3)]
    driver.execute(*[b.enqueue(job_id) for job_id in ids])
    for _ in range(2):
        driver.lease(b.lease(), limit=3)
        driver.execute(*[b.cancel(job_id) for job_id in ids[:1]])
        driver.expire(b.at(100))
    with driver.engine.read() as reader:
        records = reader.records(0, 100)
        assert [record.position for record in records] == list(range(1, len(records) + 1)) and len(records) > 8
        assert reader.head().size == len(records)
        for job_id in ids:
            versions = [record.version for record in records if record.job_id == job_id]
            assert versions == list(range(1, reader.job(job_id).version + 1))


def test_records_are_read_in_pages_and_one_by_one(driver):
    """`records` begins after a position and stops at the limit or the end; `record` takes one."""
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(1, 301)])
    with driver.engine.read() as reader:
        assert [record.position for record in reader.records(0, 3)] == [1, 2, 3]
        assert [record.position for record in reader.records(255, 3)] == [256, 257, 258]
        assert [record.position for record in reader.records(298, 10)] == [299, 300]
        assert reader.records(300, 10) == [] and reader.records(5_000, 10) == [] and reader.records(7, 0) == []
        assert reader.record(256) == reader.records(255, 1)[0]
        assert reader.record(301) is None


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: event.type)
def test_a_record_comes_back_as_it_was_appended(open_engine_again, event):
    """Every event with every sort of value; time and actor too."""
    engine = open_engine_again([])
    transaction = engine.begin()
    job, job_id, time = None, b.an_id(7), b.at(1)
    for past in [] if event.type == "job_enqueued" else [b.enqueued(idempotency_key="k"), b.leased()]:
        job = transaction.append(job, past, job_id, time, b.PRODUCER_ACTOR, None)
    actor = Actor(ActorType.OPERATOR, ODD)
    after = transaction.append(job, event, job_id, time + 1, actor, None)
    engine.commit()
    with engine.read() as reader:
        expected = Record(after.version, job_id, after.version, time + 1, actor, event)
        assert reader.record(after.version) == expected
        assert reader.records(after.version - 1, 5) == [expected]
        assert reader.job(job_id) == (None if after.retired else after)


def test_every_event_type_is_tried():
    """The list above leaves no type out."""
    assert {event.type for event in EVERY_EVENT} == set(EVENT_TYPES)


@pytest.mark.parametrize("step", [1, 2, 7, 64])
def test_the_head_is_the_trees_over_the_records(driver, step):
    """Size and root are those of RFC 6962 over the records' texts, for commits of any size, at every size."""
    texts: list[bytes] = []
    for start in range(1, 70, step):
        driver.execute(*[b.enqueue(b.an_id(number)) for number in range(start, start + step)])
        with driver.engine.read() as reader:
            texts += [encode_record(record) for record in reader.records(len(texts), 1000)]
            assert reader.head() == Head(len(texts), tree_root(texts))


def test_a_transactions_head_counts_its_own_appends(engine):
    """Head and last time within a transaction include what it appended."""
    transaction = engine.begin()
    transaction.append(None, b.enqueued(), b.JOB_ID, b.at(3), b.PRODUCER_ACTOR, b.PAYLOAD)
    within, last_time = transaction.head(), transaction.last_time
    engine.commit()
    with engine.read() as reader:
        assert reader.head() == within and within.size == 1
    assert last_time == b.at(3) == engine.begin().last_time
    engine.abort()


@pytest.mark.parametrize(
    "text",
    [b"", b"0", b'{"a": 1.000000000000000000001, "a": "\\ud83d"}', bytes(range(256)), b"x" * (1 << 20)],
    ids=lambda text: f"{len(text)} bytes",
)
def test_contents_come_back_byte_for_byte(driver, text):
    """Payload, error and result are what was given, neither parsed nor cut, each at its own event."""
    payload, error, result = (b.content(""), b.content(""), b.content(""))
    payload, error, result = (
        type(each)(mark + text, each.salt) for each, mark in ((payload, b"p"), (error, b"e"), (result, b"r"))
    )
    driver.execute(b.enqueue(payload=payload))
    driver.lease(b.lease())
    driver.execute(b.fail(error=error, delay=0))
    driver.lease(b.lease())
    (job,) = driver.execute(b.complete(token=2, result=result))
    with driver.engine.read() as reader:
        assert reader.content(job.spec.payload) == b"p" + text
        assert reader.content(job.error) == b"e" + text
        assert reader.content(job.result) == b"r" + text
        assert (job.spec.payload.position, job.error.position, job.result.position) == (1, 3, 5)
        together = reader.contents([job.result, job.spec.payload, job.error, job.result])
        assert together == {1: b"p" + text, 3: b"e" + text, 5: b"r" + text} and reader.contents([]) == {}


def test_a_missing_content_is_damage(engine):
    """A reference that leads nowhere is reported, not answered with nothing."""
    with engine.read() as reader, pytest.raises(Corrupt, match="7"):
        reader.content(ContentRef(7, 3))


def test_a_missing_content_among_others_is_damage(driver):
    """Also when several are asked for together."""
    (job,) = driver.execute(b.enqueue())
    with driver.engine.read() as reader, pytest.raises(Corrupt, match="7"):
        reader.contents([job.spec.payload, ContentRef(7, 3)])


def test_time_never_goes_backwards_in_the_log(driver):
    """An append earlier than the newest record is a broken promise, in the same transaction and in the next."""
    driver.execute(b.enqueue(b.an_id(1), now=b.at(5)))
    transaction = driver.engine.begin()
    with pytest.raises(ValueError, match="time"):
        transaction.append(None, b.enqueued(), b.an_id(2), b.at(5) - 1, b.PRODUCER_ACTOR, None)
    transaction.append(None, b.enqueued(), b.an_id(2), b.at(5), b.PRODUCER_ACTOR, None)
    driver.engine.commit()


def test_an_id_is_used_once(driver):
    """A second job under an id that is taken is a broken promise."""
    driver.execute(b.enqueue(b.an_id(1)))
    transaction = driver.engine.begin()
    with pytest.raises(ValueError, match="exists"):
        transaction.append(None, b.enqueued(), b.an_id(1), b.at(5), b.PRODUCER_ACTOR, None)
    driver.engine.abort()
