"""Finished jobs that lose their contents, their row and their key, on every engine."""

from __future__ import annotations

import pytest

from eventjobs.domain.job import State
from eventjobs.domain.rejections import Code
from eventjobs.projections import dead_list, history, listing, stats
from eventjobs.store.contract import BARE, HOLDING, KEYED, Corrupt, EndingLane
from eventjobs.testing import builders as b

LATER = b.at(100)


def ended(driver, number: int = 1, **members):
    """A job that failed once and then died."""
    job_id = b.an_id(number)
    driver.execute(b.enqueue(job_id, **members))
    for token, retry in ((1, True), (2, False)):
        driver.lease(b.lease(now=b.at(20 * token)))
        driver.execute(b.fail(job_id, token=token, retry=retry, delay=0, now=b.at(20 * token + 1)))
    return job_id


def lanes(reader, stage: str) -> list[EndingLane]:
    return [lane for lane, _ in reader.ending_lanes(stage)]


def test_what_is_erased_is_not_in_the_store(driver):
    """Payload and the errors of all attempts are gone with the event that names their positions."""
    job_id = ended(driver)
    with driver.engine.read() as reader:
        refs = [reader.job(job_id).spec.payload, reader.job(job_id).error]
        assert lanes(reader, HOLDING) == [EndingLane(HOLDING, State.DEAD, "default", "email")]
    (job,) = driver.execute(b.erase(job_id, now=LATER))
    assert job.erased == ("payload", "error") and job.spec.payload is None and job.error is None
    with driver.engine.read() as reader:
        event = reader.record(6).event
        assert (event.payload_position, event.result_position, event.error_positions) == (1, None, (3, 5))
        for ref in refs:
            with pytest.raises(Corrupt):
                reader.content(ref)
        assert reader.job(job_id) == job
        assert (lanes(reader, HOLDING), len(lanes(reader, BARE))) == ([], 1)
    driver.execute(b.erase(job_id, now=LATER))
    with driver.engine.read() as reader:
        assert reader.head().size == 6


def test_a_retired_job_leaves_every_list(driver):
    """Its records stay; job, history, lists and counts have it no more."""
    job_id = ended(driver)
    driver.execute(b.retire(job_id, now=LATER))
    with driver.engine.read() as reader:
        assert reader.job(job_id) is None
        assert listing.page(reader, state=None, kind=None, queue=None, below=None, limit=9) == []
        assert dead_list.page(reader, kind=None, queue=None, limit=9) == []
        assert history.positions(reader, job_id) == []
        assert sum(stats.read(reader).jobs.values()) == 0 and stats.read(reader).died == 1
        assert [lanes(reader, stage) for stage in (HOLDING, BARE, KEYED)] == [[], [], []]
        assert reader.record(6).event.type == "job_retired"
    (refused,) = driver.execute(b.requeue(job_id, now=LATER))
    assert refused.code is Code.JOB_NOT_FOUND


def test_a_key_outlives_its_retired_job_until_it_is_forgotten(driver):
    """The same request meets the job that was, another is refused; then the key is free."""
    job_id = ended(driver, idempotency_key="k")
    driver.execute(b.retire(job_id, now=LATER))
    (held,) = driver.execute(b.enqueue(b.an_id(2), idempotency_key="k", now=LATER))
    assert held.id == job_id and held.retired
    (other,) = driver.execute(b.enqueue(b.an_id(2), idempotency_key="k", kind="other", now=LATER))
    assert other.code is Code.IDEMPOTENCY_KEY_REUSED
    (null,) = driver.execute(b.enqueue(b.an_id(2), idempotency_key="k", payload=None, now=LATER))
    assert null.code is Code.IDEMPOTENCY_KEY_REUSED
    driver.execute(b.forget_key(job_id, now=LATER))
    (fresh,) = driver.execute(b.enqueue(b.an_id(2), idempotency_key="k", now=LATER))
    assert fresh.id == b.an_id(2)


def test_a_key_is_free_as_soon_as_it_is_forgotten(driver):
    """Within the transaction that forgets it too, whether the key was there before or came in it."""
    job_id = ended(driver, idempotency_key="k")
    transaction = driver.engine.begin()
    assert transaction.key_holder("k").job.id == job_id
    transaction.append(transaction.job(job_id), b.key_forgotten(), job_id, LATER, b.OPERATOR_ACTOR, None)
    assert transaction.key_holder("k") is None
    transaction.append(None, b.enqueued(idempotency_key="k"), b.an_id(2), LATER, b.PRODUCER_ACTOR, b.PAYLOAD)
    assert transaction.key_holder("k").job.id == b.an_id(2)
    driver.engine.commit()
    (again,) = driver.execute(b.enqueue(b.an_id(3), idempotency_key="k", now=LATER))
    assert again.id == b.an_id(2)


def test_finished_jobs_are_found_oldest_end_first(driver):
    """Up to a time and a number; a job that is not finished, or was brought back, is none of them."""
    for number in (2, 1):
        driver.execute(b.enqueue(b.an_id(number)))
        driver.execute(b.cancel(b.an_id(number), now=b.at(50 - number)))
    driver.execute(b.enqueue(b.an_id(3), now=b.at(60)))
    lane = EndingLane(HOLDING, State.CANCELED, "default", "email")
    with driver.engine.read() as reader:
        assert list(reader.ending_lanes(HOLDING)) == [(lane, b.at(48))]
        assert reader.ended(lane, b.at(48), 9) == [b.an_id(2)]
        assert reader.ended(lane, LATER, 9) == [b.an_id(2), b.an_id(1)]
        assert reader.ended(lane, LATER, 1) == [b.an_id(2)]
