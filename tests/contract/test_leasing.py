"""What every engine offers for leasing and rescuing: candidates, expiries, what comes due, grants, key holders."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from eventjobs.domain.job import DeathCause
from eventjobs.domain.limits import LEASE_REQUEST_MEMORY_SECONDS
from eventjobs.store.contract import DUE_ROWS_MAX, Grant
from eventjobs.testing import builders as b

DAY = b.seconds(LEASE_REQUEST_MEMORY_SECONDS)
NAMES = ["a", "a-", "a.b", "aa", "A", "b", "b:1", "zz"]
"""Names that are beginnings of one another and sort differently in other orders than bytes."""


def jobs_of(engine):
    with engine.read() as reader:
        ids = {record.job_id for record in reader.records(0, 100_000)}
        return [reader.job(job_id) for job_id in ids]


def expected(jobs, queues, kinds, now, limit):
    """The order of leasing as it is defined, over all jobs."""
    due = [
        job
        for job in jobs
        if job.waiting
        and job.run_at <= now
        and (queues is None or job.spec.queue in queues)
        and (kinds is None or job.spec.kind in kinds)
    ]
    due.sort(key=lambda job: (-job.spec.priority, job.run_at, job.spec.position))
    return due[:limit]


@pytest.fixture
def busy(driver):
    """400 jobs of many lanes, priorities and times, by a fixed seed; some were leased, failed, released or canceled."""
    random = Random(42)
    for start in range(0, 400, 80):
        driver.execute(
            *[
                b.enqueue(
                    b.an_id(number),
                    queue=random.choice(NAMES),
                    kind=random.choice(NAMES),
                    priority=random.choice([-100, -1, 0, 0, 0, 1, 100]),
                    run_at=b.at(random.choice([-1e9, -5, 0, 0, 1, 50, 60, 1e8])),
                )
                for number in range(start, start + 80)
            ]
        )
    leased = driver.lease(b.lease(now=b.at(55)), limit=60)
    for job in leased:
        token = {"token": job.lease_token, "now": b.at(55)}
        match random.randrange(5):
            case 0:
                driver.execute(b.fail(job.id, delay=b.seconds(random.choice([0, 3, 90])), **token))
            case 1:
                driver.execute(b.release(job.id, **token))
            case 2:
                driver.execute(b.complete(job.id, **token))
            case 3:
                driver.execute(b.cancel(job.id, now=b.at(55)))
    return driver


def test_candidates_are_the_due_jobs_in_order(busy):
    """Any queues, kinds, time and limit give what filtering and sorting all jobs gives."""
    filters = [None, ["a"], ["a", "zz"], ["A", "missing"], ["zz", "a", "a"], ["missing"], NAMES]
    jobs = jobs_of(busy.engine)
    transaction = busy.engine.begin()
    for queues, kinds, now, limit in product(filters, filters, [-1e10, 55, 58, 2e8], [1, 5, 1000]):
        found = transaction.candidates(queues, kinds, b.at(now), limit)
        assert found == expected(jobs, queues, kinds, b.at(now), limit), (queues, kinds, now, limit)
    busy.engine.abort()


def test_leasing_everything_meets_each_job_once_in_order(busy):
    """Batch after batch until nothing is left: no job twice, none forgotten, always the best first."""
    wanted = [job.id for job in expected(jobs_of(busy.engine), None, None, b.at(70), 1000)]
    met = []
    while jobs := busy.lease(b.lease(now=b.at(70)), limit=7):
        met += [job.id for job in jobs]
    assert met == wanted and len(met) > 100


def test_future_jobs_at_the_head_do_not_hide_the_due_ones(driver):
    """In one lane: a hundred scheduled jobs of high priority, and one due job of low priority behind them."""
    later = [b.enqueue(b.an_id(number), priority=50 - number % 3, run_at=b.at(900)) for number in range(1, 101)]
    driver.execute(*later, b.enqueue(b.an_id(500), priority=-5))
    transaction = driver.engine.begin()
    assert [job.id for job in transaction.candidates(None, None, b.at(1), 10)] == [b.an_id(500)]
    assert len(transaction.candidates(None, None, b.at(900), 1000)) == 101
    driver.engine.abort()


def test_two_candidates_requests_in_one_transaction_do_not_overlap(driver):
    """What was leased in this very transaction is not offered again."""
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(1, 11)])
    transaction = driver.engine.begin()
    first = transaction.candidates(None, None, b.at(1), 6)
    for job in first:
        transaction.append(job, b.leased(), job.id, b.at(1), b.WORKER_ACTOR, None)
    second = transaction.candidates(None, None, b.at(1), 6)
    driver.engine.commit()
    assert len(first) == 6 and len(second) == 4 and not {job.id for job in first} & {job.id for job in second}


# Expiries


def test_expired_leases_oldest_first(driver):
    """`expired` gives running jobs whose lease ended at or before now, by expiry; `next_expiry` the earliest of all."""
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(1, 6)])
    for duration in (50, 10, 40, 10, 20):
        driver.lease(b.lease(duration=b.seconds(duration), now=b.at(1)))
    engine = driver.engine
    transaction = engine.begin()
    assert transaction.next_expiry() == b.at(11)
    assert transaction.expired(b.at(11) - 1, 10) == []
    assert [job.id for job in transaction.expired(b.at(11), 10)] == [b.an_id(2), b.an_id(4)]
    assert [job.id for job in transaction.expired(b.at(41), 10)] == [b.an_id(n) for n in (2, 4, 5, 3)]
    assert [job.id for job in transaction.expired(b.at(99), 3)] == [b.an_id(n) for n in (2, 4, 5)]
    engine.abort()


@pytest.mark.parametrize(
    "end",
    [b.complete(), b.fail(), b.fail(retry=False), b.release(), b.cancel()],
    ids=lambda command: type(command).__name__,
)
def test_a_lease_that_ended_does_not_expire(driver, end):
    """Whatever ends a lease takes its expiry away."""
    driver.execute(b.enqueue())
    driver.lease(b.lease())
    driver.execute(end)
    transaction = driver.engine.begin()
    assert transaction.next_expiry() is None and transaction.expired(b.at(1e6), 10) == []
    driver.engine.abort()


def test_a_renewal_moves_the_expiry(driver):
    """The old expiry is gone, the new one counts."""
    driver.execute(b.enqueue())
    driver.lease(b.lease())
    driver.execute(b.renew(now=b.at(20)))
    transaction = driver.engine.begin()
    assert transaction.next_expiry() == b.at(50) and transaction.expired(b.at(49), 10) == []
    driver.engine.abort()


def test_an_expired_job_can_be_leased_again(driver):
    """The expiry puts the job back in order, with its attempt counted; the last one ends it."""
    driver.execute(b.enqueue(max_attempts=2))
    driver.lease(b.lease())
    assert [job.id for job in driver.expire(b.at(40))] == [b.JOB_ID]
    (again,) = driver.lease(b.lease(now=b.at(41)))
    assert (again.attempts, again.lease_token) == (2, 2)
    (dead,) = driver.expire(b.at(99))
    assert dead.death_cause is DeathCause.LEASE_EXPIRED
    assert driver.lease(b.lease(now=b.at(99))) == [] and driver.expire(b.at(999)) == []


# What comes due


def test_the_next_time_something_comes_due(driver):
    """The earliest run_at above the time given, with every queue and kind that has a job coming due just then."""
    driver.execute(
        b.enqueue(b.an_id(1), queue="q", kind="x", run_at=b.at(100)),
        b.enqueue(b.an_id(2), queue="q", kind="x", run_at=b.at(50)),
        b.enqueue(b.an_id(3), queue="q", kind="x", run_at=b.at(50)),
        b.enqueue(b.an_id(4), queue="q-2", kind="y", run_at=b.at(50)),
        b.enqueue(b.an_id(5), queue="now", kind="now"),
    )
    with driver.engine.read() as reader:
        time, lanes = reader.next_due(b.at(10))
        assert time == b.at(50) and sorted(lanes) == [("q", "x"), ("q-2", "y")]
        assert reader.next_due(b.at(50) - 1)[0] == b.at(50)
        assert reader.next_due(b.at(50)) == (b.at(100), [("q", "x")])
        assert reader.next_due(b.at(100)) is None


def test_what_comes_due_is_not_told_in_full_when_it_is_too_much(driver):
    """More jobs for one time than may be looked at: the time is told, and that there are many."""
    jobs = [b.enqueue(b.an_id(number), run_at=b.at(50), now=b.at(1)) for number in range(DUE_ROWS_MAX + 1)]
    driver.execute(*jobs[:-1])
    with driver.engine.read() as reader:
        assert reader.next_due(b.at(1)) == (b.at(50), [("default", "email")])
    driver.execute(jobs[-1])
    with driver.engine.read() as reader:
        assert reader.next_due(b.at(1)) == (b.at(50), None)


def test_what_is_not_waiting_does_not_come_due(driver):
    """A retry comes due; a leased, completed or canceled job does not."""
    driver.execute(*[b.enqueue(b.an_id(number), run_at=b.at(5)) for number in (1, 2, 3)])
    driver.lease(b.lease(), limit=2)
    driver.execute(b.fail(b.an_id(1), delay=b.seconds(30)), b.complete(b.an_id(2)), b.cancel(b.an_id(3)))
    with driver.engine.read() as reader:
        assert reader.next_due(b.at(10)) == (b.at(40), [("default", "email")])
    driver.execute(b.cancel(b.an_id(1)))
    with driver.engine.read() as reader:
        assert reader.next_due(b.at(10)) is None


# Lease requests


def test_a_request_is_remembered_with_its_grants(driver):
    """Jobs and tokens of the request in the order they were granted; only for its worker; none for an empty one."""
    driver.execute(*[b.enqueue(b.an_id(number), priority=number) for number in range(1, 6)])
    driver.lease(b.lease(request_id="r"), limit=3)
    driver.lease(b.lease(request_id="r", worker="other"), limit=1)
    driver.lease(b.lease(request_id="s", now=b.at(11)), queues=["nothing"])
    transaction = driver.engine.begin()
    assert transaction.grants(b.WORKER, "r", b.at(12)) == [Grant(b.an_id(number), 1) for number in (5, 4, 3)]
    assert transaction.grants("other", "r", b.at(12)) == [Grant(b.an_id(2), 1)]
    assert transaction.grants(b.WORKER, "s", b.at(12)) is None
    assert transaction.grants(b.WORKER + "r", "", b.at(12)) is None
    driver.engine.abort()


def test_grants_are_remembered_after_their_leases_ended(driver):
    """A repeat is told what was granted though nothing of it is held any more: it must never lease anew."""
    driver.execute(b.enqueue(), b.enqueue(b.an_id(2)))
    driver.lease(b.lease(request_id="r"))
    driver.execute(b.complete())
    assert driver.lease(b.lease(request_id="r", now=b.at(12)), limit=5) == []
    assert [job.id for job in driver.lease(b.lease(request_id="q", now=b.at(12)), limit=5)] == [b.an_id(2)]


def test_a_request_is_forgotten_after_a_day(driver):
    """For 24 hours from the lease a request is known; then it may lease anew, and is known by its new grants."""
    driver.execute(*[b.enqueue(b.an_id(number)) for number in (1, 2)])
    driver.lease(b.lease(request_id="r", now=b.at(10)))
    transaction = driver.engine.begin()
    assert transaction.grants(b.WORKER, "r", b.at(10) + DAY - 1) == [Grant(b.an_id(1), 1)]
    assert transaction.grants(b.WORKER, "r", b.at(10) + DAY) is None
    driver.engine.abort()
    (job,) = driver.lease(b.lease(request_id="r", now=b.at(10) + DAY))
    transaction = driver.engine.begin()
    assert job.id == b.an_id(2)
    assert transaction.grants(b.WORKER, "r", b.at(20) + DAY) == [Grant(b.an_id(2), 1)]
    driver.engine.abort()


def test_forgetting_one_request_keeps_the_others(driver):
    """Requests over three days, three an hour: at any time those of the last 24 hours are known, and no others."""
    hour = b.seconds(3600)
    driver.execute(*[b.enqueue(b.an_id(number), priority=-(number // 4)) for number in range(216)])
    for number in range(72):
        for part in range(3):
            name = f"{part}-{number % 30}"
            driver.lease(b.lease(request_id=name, now=b.at(10) + number * hour))
        if number in (5, 23, 24, 25, 40, 71):
            transaction = driver.engine.begin()
            now = b.at(10) + number * hour
            known = {name for name in range(30) if transaction.grants(b.WORKER, f"1-{name}", now) is not None}
            driver.engine.abort()
            assert known == {each % 30 for each in range(max(0, number - 23), number + 1)}


# Idempotency keys


@pytest.mark.parametrize("key", ["k", "K", "k" * 255, "ключ " + "é" * 250, "\x7f"])
def test_a_key_leads_to_its_job_and_payload(driver, key):
    """The key's holder is the job as it stands now, with its payload's text; other keys lead nowhere."""
    driver.execute(b.enqueue(b.an_id(1), idempotency_key=key), b.enqueue(b.an_id(2), idempotency_key="x", payload=None))
    driver.lease(b.lease())
    transaction = driver.engine.begin()
    holder = transaction.key_holder(key)
    assert holder.job == transaction.job(b.an_id(1)) and holder.job.lease is not None
    assert holder.payload == b.PAYLOAD.text
    assert transaction.key_holder("x").payload is None
    assert transaction.key_holder(key + "k") is None and transaction.key_holder(key[:-1] or "z") is None
    driver.engine.abort()


def test_a_key_outlives_its_job(driver):
    """A job that ended still holds its key."""
    driver.execute(b.enqueue(idempotency_key="k"))
    driver.execute(b.cancel())
    before = b.an_id(2)
    (job,) = driver.execute(b.enqueue(before, idempotency_key="k", now=b.at(20)))
    assert job.id == b.JOB_ID and job.state == "canceled"


def test_who_is_ahead_is_who_would_be_leased_before(driver):
    """The due jobs ahead of each waiting one are those that leases would take first, by lane; no others are counted."""
    for number in range(24):
        delay = b.seconds(500) if number % 8 == 7 else None
        more = {"queue": f"q{number % 2}", "kind": f"k{number % 3}", "priority": number % 4, "delay": delay}
        driver.execute(b.enqueue(b.an_id(number), **more, now=b.at(number)))
    now = b.at(100)
    with driver.engine.read() as reader:
        jobs = [reader.job(b.an_id(number)) for number in range(24)]
        due = sorted(
            (job for job in jobs if job.run_at <= now),
            key=lambda job: (-job.spec.priority, job.run_at, job.spec.position),
        )
        lanes = [(job.spec.queue, job.spec.kind) for job in due]
        for place, job in enumerate(due):
            for wanted in (lambda lane: True, lambda lane: lane[0] == "q1", lambda lane: lane == ("q0", "k2")):
                ahead = [lane for lane in lanes[:place] if wanted(lane)]
                assert reader.ahead_of(job, wanted, now, 100) == {lane: ahead.count(lane) for lane in set(ahead)}
                assert sum(reader.ahead_of(job, wanted, now, 3).values()) == min(3, len(ahead))
