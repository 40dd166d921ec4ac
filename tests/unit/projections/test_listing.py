"""The job listing and its walk over lanes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from eventjobs.domain.events import Record
from eventjobs.domain.job import State
from eventjobs.projections import listing
from eventjobs.testing import builders as b


@pytest.fixture
def many(ledger):
    """300 jobs spread over queues and kinds by a fixed seed; a third of them running, a third completed."""
    random = Random(7)
    for number in range(1, 301):
        job_id = b.an_id(number)
        queue, kind = random.choice(["a", "b", "b-1", "c"]), random.choice(["k", "kk", "l", "Z"])
        ledger.record(job_id, b.enqueued(queue=queue, kind=kind), time=b.at(0))
        if number % 3:
            ledger.record(job_id, b.leased(), time=b.at(1))
        if number % 3 == 2:
            ledger.record(job_id, b.completed(), time=b.at(2))
    return ledger


def expected(ledger, state, kind, queue, below, limit):
    found = [
        (job.spec.position, job.id)
        for job in ledger.jobs.values()
        if state in (None, job.state)
        and kind in (None, job.spec.kind)
        and queue in (None, job.spec.queue)
        and (below is None or job.spec.position < below)
    ]
    return sorted(found, reverse=True)[:limit]


@pytest.mark.parametrize("state", [None, State.QUEUED, State.SUCCEEDED, State.DEAD])
def test_every_filter_gives_the_newest_first(many, state):
    """Any combination of filters gives what filtering and sorting all jobs gives."""
    for kind, queue, below, limit in product(
        [None, "k", "kk", "missing", "A"], [None, "a", "b", "b-", "zzz"], [None, 1, 200, 10_000], [1, 7, 1000]
    ):
        asked = {"state": state, "kind": kind, "queue": queue, "below": below, "limit": limit}
        assert listing.page(many.rows, **asked) == expected(many, **asked), asked


def test_pages_are_stable_under_writes(many):
    """Walking down page by page meets every job once, though new ones arrive meanwhile."""
    wanted = expected(many, None, None, None, None, 1000)
    met, below = [], None
    while page := listing.page(many.rows, state=None, kind=None, queue=None, below=below, limit=40):
        met += page
        below = page[-1][0]
        many.record(b.an_id(10_000 + below), b.enqueued(), time=b.at(3))
    assert met == wanted


def test_lanes_left_out_are_not_walked_over(many):
    """A page touches a few rows for each lane and the rows it gives, not those of other states."""
    many.rows.handed_out = 0
    page = listing.page(many.rows, state=State.RUNNING, kind=None, queue=None, below=None, limit=5)
    lanes = 16
    assert len(page) == 5
    assert many.rows.handed_out <= 3 * lanes + 5 + lanes


def test_a_job_is_listed_once_in_its_present_state(ledger):
    """Each change of state moves the one row."""
    seen = []
    for event in [b.enqueued(), b.leased(), b.renewed(), b.failed(), b.leased(token=2, attempt=2), b.canceled()]:
        job = ledger.record(b.JOB_ID, event, time=b.at(5))
        assert len(ledger.rows.tables["listing"]) == 1
        page = listing.page(ledger.rows, state=job.state, kind="email", queue="default", below=None, limit=10)
        assert page == [(1, b.JOB_ID)]
        seen.append(job.state)
    assert seen == ["queued", "running", "running", "failed", "running", "canceled"]


def test_a_renewal_touches_nothing(ledger):
    """A record that leaves the state as it is costs no write."""
    before = ledger.record(b.JOB_ID, b.enqueued(), b.leased(), time=b.at(1))
    after = ledger.record(b.JOB_ID, b.renewed(), time=b.at(2))
    record = Record(3, b.JOB_ID, 3, b.at(2), b.WORKER_ACTOR, b.renewed())
    assert list(listing.Listing().project(ledger.rows, before, record, after)) == []
