"""Statistics."""

from __future__ import annotations

import pytest

from eventjobs.domain.job import DeathCause, State
from eventjobs.projections import READ_MODELS, stats
from eventjobs.testing import builders as b


def counted(counts):
    """Only what is not zero."""
    return {name: count for name, count in counts.items() if count}


def test_nothing_has_happened(ledger):
    """Before the first event every number is there and zero, and the averages are None."""
    read = stats.read(ledger.rows)
    assert read.jobs == dict.fromkeys(State, 0)
    assert (read.queues, read.kinds) == ({}, {})
    assert (read.average_wait_seconds, read.average_run_seconds) == (None, None)
    assert set(read.events.values()) == {0} and len(read.events) == 13
    assert read.wait_histogram.count == 0 and read.wait_histogram.sum_seconds == 0


def test_jobs_are_counted_by_state_queue_and_kind(ledger):
    """Each job counts once, where it is now; a queue that emptied keeps its zeros."""
    ledger.record(b.an_id(1), b.enqueued(queue="q", kind="x"), time=b.at(0))
    ledger.record(b.an_id(2), b.enqueued(queue="q", kind="y"), b.leased(), time=b.at(0))
    ledger.record(b.an_id(3), b.enqueued(queue="r", kind="y"), b.leased(), b.completed(), time=b.at(0))
    ledger.record(b.an_id(4), b.enqueued(queue="r", kind="y"), b.canceled(), time=b.at(0))
    read = stats.read(ledger.rows)
    assert counted(read.jobs) == {"queued": 1, "running": 1, "succeeded": 1, "canceled": 1}
    assert {name: counted(states) for name, states in read.queues.items()} == {
        "q": {"queued": 1, "running": 1},
        "r": {"succeeded": 1, "canceled": 1},
    }
    assert {name: counted(states) for name, states in read.kinds.items()} == {
        "x": {"queued": 1},
        "y": {"running": 1, "succeeded": 1, "canceled": 1},
    }
    assert read.queues["q"].keys() == set(State) and read.jobs[State.DEAD] == 0


def test_waits_and_runs_are_averaged(ledger):
    """Wait: run_at to lease. Run: lease to completion."""
    ledger.record(b.an_id(1), b.enqueued(), time=b.at(0))
    ledger.record(b.an_id(2), b.enqueued(run_at=b.at(5)), time=b.at(0))
    ledger.record(b.an_id(1), b.leased(), time=b.at(2))
    ledger.record(b.an_id(2), b.leased(), time=b.at(6))
    ledger.record(b.an_id(1), b.completed(), time=b.at(12))
    ledger.record(b.an_id(2), b.completed(), time=b.at(6.5))
    read = stats.read(ledger.rows)
    assert read.average_wait_seconds == (2 + 1) / 2
    assert read.average_run_seconds == (10 + 0.5) / 2


def test_a_run_at_long_past_does_not_count_as_waiting(ledger):
    """A job has not waited before it was there."""
    ledger.record(b.JOB_ID, b.enqueued(run_at=-60_000_000_000_000_000), time=b.at(0))
    ledger.record(b.JOB_ID, b.leased(), time=b.at(3))
    assert stats.read(ledger.rows).average_wait_seconds == 3


@pytest.mark.parametrize(
    ("end", "runs"),
    [
        (b.completed(), 1),
        (b.failed(), 1),
        (b.died(), 1),
        (b.died(cause=DeathCause.LEASE_EXPIRED, error=None), 1),
        (b.expired(), 1),
        (b.released(), 0),
        (b.canceled(), 0),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else None,
)
def test_which_ends_of_a_lease_are_runs(ledger, end, runs):
    """Completions, failures and expiries are runs; releases and cancels are not."""
    ledger.record(b.JOB_ID, b.enqueued(), b.leased(), time=b.at(1))
    ledger.record(b.JOB_ID, end, time=b.at(5))
    read = stats.read(ledger.rows)
    assert read.run_histogram.count == runs
    assert read.average_run_seconds == (4 if runs else None)
    assert read.wait_histogram.count == 1


def test_failures_deaths_and_expiries_are_told_apart(ledger):
    """The last failure and the last expiry are deaths, and still count as what they are."""
    for number, ends in enumerate(
        [
            [b.failed(), b.leased(token=2, attempt=2), b.died()],
            [b.died(cause=DeathCause.NOT_RETRYABLE)],
            [b.expired(), b.leased(token=2, attempt=2), b.died(cause=DeathCause.LEASE_EXPIRED, error=None)],
            [b.completed()],
        ]
    ):
        ledger.record(b.an_id(number), b.enqueued(), b.leased(), *ends, time=b.at(1))
    read = stats.read(ledger.rows)
    assert (read.completed, read.died, read.failed_attempts, read.lease_expirations) == (1, 3, 3, 2)
    assert counted(read.events) == {
        "job_enqueued": 4,
        "job_leased": 6,
        "attempt_failed": 1,
        "lease_expired": 1,
        "job_died": 3,
        "job_completed": 1,
    }


@pytest.mark.parametrize(("wait", "bucket"), [(0, 0), (0.001, 0), (0.001001, 1), (1, 9), (3600, 17), (3600.1, 18)])
def test_buckets_include_their_upper_bounds(ledger, wait, bucket):
    """A duration falls into the first bucket whose bound is not below it, or into the last, unbounded one."""
    ledger.record(b.JOB_ID, b.enqueued(), time=b.at(0))
    ledger.record(b.JOB_ID, b.leased(), time=b.at(wait))
    histogram = stats.read(ledger.rows).wait_histogram
    assert [place for place, count in enumerate(histogram.counts) if count] == [bucket]
    assert len(histogram.counts) == len(histogram.bounds_seconds) + 1
    assert histogram.sum_seconds == pytest.approx(wait) and histogram.count == 1


def test_a_record_changes_few_numbers(ledger):
    """No record touches more than five counters."""
    model = next(model for model in READ_MODELS if model.name == "stats")
    before = ledger.record(b.JOB_ID, b.enqueued(), time=b.at(0))
    for event in [b.leased(), b.renewed(), b.expired(), b.leased(token=2, attempt=2), b.failed(), b.canceled()]:
        after = ledger.record(b.JOB_ID, event, time=b.at(40))
        record = stats.e.Record(9, b.JOB_ID, after.version, b.at(40), b.WORKER_ACTOR, event)
        assert len(list(model.project(ledger.rows, before, record, after))) <= 5
        before = after


def test_read_models_have_distinct_names_and_tables():
    """An engine keeps projections by name and rows by table name."""
    assert len({model.name for model in READ_MODELS}) == len(READ_MODELS)
    tables = [table.name for model in READ_MODELS for table in model.tables]
    assert len(set(tables)) == len(tables)
