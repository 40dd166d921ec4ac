"""Lease requests and expiries against plain models, over any sequence of leases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.store.indexes import (
    EXPIRIES,
    LEASE_REQUEST_AGES,
    LEASE_REQUEST_MEMORY,
    LEASE_REQUESTS,
    Expiries,
    LeaseRequests,
    decode_request,
    remembered_request,
    text_digest,
)
from eventjobs.testing import builders as b

HOUR = b.seconds(3_600)
requests = st.lists(
    st.tuples(
        st.sampled_from(["w1", "w2"]),
        st.sampled_from([None, "r1", "r2", "r3"]),
        st.integers(1, 3),
        st.sampled_from([0, 1, HOUR, 23 * HOUR, LEASE_REQUEST_MEMORY - 1, LEASE_REQUEST_MEMORY]),
    ),
    max_size=25,
)
"""(worker, request id, jobs granted, time since the request before)"""


@given(requests=requests)
def test_a_request_is_remembered_for_a_day_from_its_first_grant(fold, requests):
    """At every step each request of the last day is found at its first grant, and none that is older."""
    index, model, now, jobs = fold(LeaseRequests()), {}, b.START, 0
    for worker, request_id, grants, later in requests:
        now += later
        if request_id is not None and model.get((worker, request_id), (0, -1))[1] > now - LEASE_REQUEST_MEMORY:
            continue  # a repeated request is answered from memory and leases nothing
        for _ in range(grants):
            jobs += 1
            index.record(b.an_id(jobs), b.enqueued(), now)
        first = index.size + 1
        for number in range(jobs - grants + 1, jobs + 1):
            index.record(b.an_id(number), b.leased(worker=worker, request_id=request_id), now)
        if request_id is not None:
            model[worker, request_id] = (first, now)
        for key, (position, time) in model.items():
            known = position if time > now - LEASE_REQUEST_MEMORY else None
            assert remembered_request(index, text_digest(*key), now) == known


@given(requests=requests)
def test_what_is_forgotten_leaves_nothing(fold, requests):
    """Every row of an age leads to a request or was superseded, and every request has its row of an age."""
    index, now = fold(LeaseRequests()), b.START
    for number, (worker, request_id, _, later) in enumerate(requests):
        now += later
        index.record(b.an_id(number), b.enqueued(), now)
        index.record(b.an_id(number), b.leased(worker=worker, request_id=request_id), now)
        ages = index.tables[LEASE_REQUEST_AGES]
        for digest, stored in index.tables[LEASE_REQUESTS].items():
            assert ages[decode_request(stored)[0],] == digest[0]
        assert {(digest,) for digest in ages.values()} == set(index.tables[LEASE_REQUESTS])


def test_old_requests_do_not_pile_up(fold):
    """With a request every hour for a month no more rows are kept than a day's and a few."""
    index = fold(LeaseRequests())
    for hour in range(24 * 30):
        index.record(b.an_id(hour), b.enqueued(), b.START + hour * HOUR)
        index.record(b.an_id(hour), b.leased(request_id=f"r{hour}"), b.START + hour * HOUR)
    assert len(index.tables[LEASE_REQUESTS]) == len(index.tables[LEASE_REQUEST_AGES]) <= 26


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["lease", "renew", "release", "complete", "cancel"]),
            st.integers(1, 9),
        ),
        max_size=30,
    )
)
def test_the_expiries_are_those_of_the_running_jobs(fold, steps):
    """After any steps there is exactly one row for each running job, under its present expiry."""
    index = fold(Expiries())
    for number in range(4):
        index.record(b.an_id(number), b.enqueued(), b.START)
    for number, step, expiry in steps:
        job = index.jobs[b.an_id(number)]
        event = None
        if step == "lease" and job.waiting:
            event = b.leased(token=job.lease_token + 1, expires_at=b.at(expiry))
        elif step == "cancel" and (job.waiting or job.lease is not None):
            event = b.canceled()
        elif job.lease is not None and step in ("renew", "release", "complete"):
            event = {
                "renew": b.renewed(token=job.lease_token, expires_at=b.at(expiry)),
                "release": b.released(token=job.lease_token),
                "complete": b.completed(token=job.lease_token),
            }[step]
        if event is not None:
            index.record(job.id, event, b.at(1))
        assert index.tables[EXPIRIES] == {
            (job.lease.expires_at, job.spec.position): job.id.encode()
            for job in index.jobs.values()
            if job.lease is not None
        }
