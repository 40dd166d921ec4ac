"""The dead list."""

from __future__ import annotations

import pytest

from eventjobs.domain.job import DeathCause
from eventjobs.projections import dead_list
from eventjobs.testing import builders as b


@pytest.fixture
def graveyard(ledger):
    """Jobs 1-40; those with even numbers are dead. Two queues, three kinds."""
    for number in range(1, 41):
        job_id = b.an_id(number)
        ledger.record(job_id, b.enqueued(queue=f"q{number // 2 % 2}", kind=f"k{number % 3}"), time=b.at(0))
    for number in range(40, 0, -2):
        ledger.record(b.an_id(number), b.leased(), b.died(), time=b.at(2))
    return ledger


def numbers(found):
    return [position for position, _ in found]


def test_only_dead_jobs_by_arrival_whenever_they_died(graveyard):
    """The list is in the order of arrival, newest or oldest first, whatever the order of dying."""
    assert numbers(dead_list.page(graveyard.rows, kind=None, queue=None, limit=100)) == list(range(40, 0, -2))
    assert numbers(dead_list.oldest(graveyard.rows, kind=None, queue=None, limit=100)) == list(range(2, 41, 2))


def test_filters_and_places_to_go_on_from(graveyard):
    """Kind, queue, `below` and `above` narrow the list; each row brings its job's id."""
    page = dead_list.page(graveyard.rows, kind="k0", queue="q1", limit=10, below=30)
    assert page == [(number, b.an_id(number)) for number in (18, 6)]
    assert numbers(dead_list.oldest(graveyard.rows, kind=None, queue="q0", limit=3, above=8)) == [12, 16, 20]
    assert dead_list.page(graveyard.rows, kind="k9", queue=None, limit=10) == []


def test_a_requeued_job_leaves_the_list_and_may_come_back(ledger):
    """Requeue takes a job off the list; dying again, by an expiry too, puts it back in its old place."""
    ledger.record(b.JOB_ID, b.enqueued(), b.leased(), b.died(), b.requeued(), time=b.at(3))
    assert dead_list.page(ledger.rows, kind=None, queue=None, limit=10) == []
    lapsed = b.died(cause=DeathCause.LEASE_EXPIRED, error=None, token=2)
    ledger.record(b.JOB_ID, b.leased(token=2), lapsed, time=b.at(60))
    assert dead_list.page(ledger.rows, kind=None, queue=None, limit=10) == [(1, b.JOB_ID)]
