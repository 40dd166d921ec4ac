"""Transactions of every engine: all or nothing, and what is seen by whom, when."""

from __future__ import annotations

import pytest

from eventjobs.projections import READ_MODELS, listing, stats
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver


def fill(driver):
    """Three jobs: queued with a key, running by a request, dead."""
    driver.execute(b.enqueue(b.an_id(1), idempotency_key="key"), b.enqueue(b.an_id(2), priority=1))
    driver.execute(b.enqueue(b.an_id(3), priority=2, max_attempts=1))
    driver.lease(b.lease(request_id="r"), limit=2)
    driver.execute(b.fail(b.an_id(3)))
    return driver


@pytest.fixture
def filled(driver):
    return fill(driver)


def everything_at_once(transaction):
    """Appends of all sorts in one transaction: new, keyed, leased, completed, requeued."""
    now = b.at(20)
    new = transaction.append(
        None, b.enqueued(idempotency_key="new", queue="other"), b.an_id(4), now, b.PRODUCER_ACTOR, b.PAYLOAD
    )
    transaction.append(new, b.leased(request_id="s", token=1), new.id, now, b.WORKER_ACTOR, None)
    running = transaction.job(b.an_id(2))
    transaction.append(running, b.completed(), running.id, now, b.WORKER_ACTOR, b.RESULT)
    dead = transaction.job(b.an_id(3))
    transaction.append(dead, b.requeued(run_at=now), dead.id, now, b.OPERATOR_ACTOR, None)


def test_an_abort_leaves_nothing(filled, whole):
    """After an abort all that can be read is as before, and the next commit goes on from there."""
    engine = filled.engine
    before = whole(engine)
    transaction = engine.begin()
    last_time = transaction.last_time
    everything_at_once(transaction)
    engine.abort()
    assert whole(engine) == before
    transaction = engine.begin()
    assert transaction.last_time == last_time
    assert transaction.key_holder("new") is None and transaction.grants(b.WORKER, "s", b.at(20)) is None
    everything_at_once(transaction)
    engine.commit()
    after = whole(engine)
    assert after["records"][: len(before["records"])] == before["records"]
    assert after["head"].size == before["head"].size + 4


def test_an_aborted_road_and_a_straight_one_lead_to_the_same(filled, whole):
    """What was aborted has no influence on what is committed later, the head included."""
    straight = fill(Driver(MemoryEngine(READ_MODELS)))
    for engine in (filled.engine, straight.engine):
        if engine is filled.engine:
            everything_at_once(engine.begin())
            engine.abort()
        everything_at_once(engine.begin())
        engine.commit()
    assert whole(filled.engine) == whole(straight.engine)


def test_a_transaction_reads_its_own_appends(filled):
    """Jobs, contents, records, keys, grants, order, expiries and read models, before the commit."""
    engine = filled.engine
    transaction = engine.begin()
    everything_at_once(transaction)
    new = transaction.job(b.an_id(4))
    assert new.lease is not None and transaction.content(new.spec.payload) == b.PAYLOAD.text
    assert transaction.record(10).job_id == b.an_id(3) and len(transaction.records(6, 10)) == 4
    assert transaction.key_holder("new").job == new and transaction.key_holder("new").payload == b.PAYLOAD.text
    assert [grant.job_id for grant in transaction.grants(b.WORKER, "s", b.at(20))] == [b.an_id(4)]
    assert [job.id for job in transaction.candidates(None, None, b.at(20), 10)] == [b.an_id(3), b.an_id(1)]
    assert [job.id for job in transaction.expired(b.at(99), 10)] == [b.an_id(4)]
    assert transaction.next_expiry() == new.lease.expires_at
    assert listing.page(transaction, state="running", kind=None, queue="other", below=None, limit=9) == [(7, new.id)]
    assert stats.read(transaction).jobs["succeeded"] == 1
    engine.abort()


def test_a_row_that_goes_and_comes_back_in_one_transaction_is_there(filled, whole):
    """A job that is leased and released at once is listed where it was; one that dies again is on the dead list."""
    engine, straight = filled.engine, fill(Driver(MemoryEngine(READ_MODELS))).engine
    for each in (engine, straight):
        transaction, now = each.begin(), b.at(20)
        job = transaction.job(b.an_id(1))
        job = transaction.append(job, b.leased(token=1), job.id, now, b.WORKER_ACTOR, None)
        transaction.append(job, b.released(), job.id, now, b.WORKER_ACTOR, None)
        dead = transaction.job(b.an_id(3))
        dead = transaction.append(dead, b.requeued(run_at=now), dead.id, now, b.OPERATOR_ACTOR, None)
        dead = transaction.append(dead, b.leased(token=2), dead.id, now, b.WORKER_ACTOR, None)
        transaction.append(dead, b.died(token=2), dead.id, now, b.WORKER_ACTOR, b.content('{"type":"t"}'))
        each.commit()
    assert whole(engine) == whole(straight)


def test_a_row_that_stays_as_it_was_first_stays_within_its_transaction(open_engine_again, scripted):
    """And in every later one: in a table of that kind a second put does nothing, with one record or with another."""
    engine = open_engine_again([scripted])
    for number, values in enumerate(((b"a", b"b"), (b"c",))):
        transaction = engine.begin()
        for each, value in enumerate(values):
            scripted.next = [(scripted.firsts, (1,), value)]
            job_id = b.an_id(10 * number + each)
            transaction.append(None, b.enqueued(), job_id, b.NOW, b.PRODUCER_ACTOR, b.PAYLOAD)
        engine.commit()
        with engine.read() as reader:
            assert list(reader.rows(scripted.firsts)) == [((1,), b"a")]


def test_readers_see_commits_only(filled, whole):
    """What a transaction appended is invisible outside until it is committed, and then it is there."""
    engine = filled.engine
    before = whole(engine)
    everything_at_once(engine.begin())
    assert whole(engine) == before
    engine.commit()
    assert whole(engine)["head"].size == before["head"].size + 4


def test_a_view_stays_as_it_was(filled):
    """A view opened before a commit goes on showing the state it was opened on, in all its answers."""
    engine = filled.engine
    with engine.read() as reader:
        head, counted = reader.head(), stats.read(reader)
        everything_at_once(engine.begin())
        engine.commit()
        assert reader.head() == head and reader.record(head.size + 1) is None
        assert reader.job(b.an_id(4)) is None and reader.job(b.an_id(2)).lease is not None
        assert stats.read(reader) == counted
        assert reader.records(head.size, 10) == []
    with engine.read() as reader:
        assert reader.head().size == head.size + 4


def test_an_empty_commit_changes_nothing(filled, whole):
    """Begin and commit with nothing between."""
    before = whole(filled.engine)
    filled.engine.begin()
    filled.engine.commit()
    assert whole(filled.engine) == before


def test_one_transaction_at_a_time(engine):
    """A second begin, or an end without a beginning, is a broken promise."""
    for end in (engine.commit, engine.abort):
        with pytest.raises(RuntimeError, match="no write transaction"):
            end()
    engine.begin()
    with pytest.raises(RuntimeError, match="open already"):
        engine.begin()
    engine.abort()
    engine.begin()
    engine.commit()


def test_there_is_room_and_housekeeping_is_silent(filled, whole):
    """A store far from full takes new work; maintenance has no effect on the content."""
    before = whole(filled.engine)
    filled.engine.maintain()
    assert filled.engine.room_for_new_work() and whole(filled.engine) == before
