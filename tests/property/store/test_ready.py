"""The order of leasing against a plain sort, over any jobs, lanes, priorities, times and filters."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.store.indexes import DUE, READY, ReadyOrder
from eventjobs.store.ready import due_places
from eventjobs.testing import builders as b

LANES = ["a", "a.", "a/b", "b", "c"]
"""Names that begin alike, so that a lane could be taken for a part of another."""
names = st.sampled_from(LANES)
times = st.integers(-3, 12).map(b.at)
asked = st.none() | st.lists(st.sampled_from([*LANES, "nobody's"]), min_size=1, max_size=4)
jobs = st.lists(st.tuples(names, names, st.sampled_from([-100, -1, 0, 1, 100]), times), max_size=30)
steps = st.lists(st.tuples(st.integers(0, 29), st.sampled_from(["lease", "fail", "cancel"]), times), max_size=30)


def built(fold, jobs, steps=()):
    """A ready order of jobs enqueued at at(0), some of them leased, failed or canceled at at(1)."""
    ready = fold(ReadyOrder())
    for number, (queue, kind, priority, run_at) in enumerate(jobs):
        event = b.enqueued(queue=queue, kind=kind, priority=priority, run_at=run_at)
        ready.record(b.an_id(number), event, b.at(0))
    for number, step, time in steps:
        job = ready.jobs.get(b.an_id(number))
        if job is None:
            continue
        if step == "lease" and job.waiting:
            ready.record(job.id, b.leased(token=job.lease_token + 1, attempt=job.attempts + 1), b.at(1))
        elif step == "fail" and job.lease is not None:
            ready.record(job.id, b.failed(token=job.lease_token, attempt=job.attempts, run_at=time), b.at(1))
        elif step == "cancel" and job.waiting:
            ready.record(job.id, b.canceled(), b.at(1))
    return ready


def expected(ready, queues, kinds, now):
    """Due jobs by the rule as it is written: priority, then run_at, then position."""
    due = [
        job
        for job in ready.jobs.values()
        if job.waiting
        and job.run_at <= now
        and (queues is None or job.spec.queue in queues)
        and (kinds is None or job.spec.kind in kinds)
    ]
    return sorted(due, key=lambda job: (-job.spec.priority, job.run_at, job.spec.position))


def first_of(number, places):
    return list(islice(places, number))


@given(jobs=jobs, steps=steps, queues=asked, kinds=asked, now=times, limit=st.integers(1, 35))
def test_due_jobs_come_in_the_order_of_leasing(fold, jobs, steps, queues, kinds, now, limit):
    """What is offered is the beginning of the sorted list of all due jobs that were asked for, each once."""
    ready = built(fold, jobs, steps)
    offered = [job_id for *_, job_id in first_of(limit, due_places(ready, queues, kinds, now))]
    assert offered == [job.id for job in expected(ready, queues, kinds, now)][:limit]


@given(jobs=jobs, steps=steps)
def test_the_index_holds_the_waiting_jobs_and_no_others(fold, jobs, steps):
    """After any steps there is one row for each waiting job, and a time for each that had to wait for it."""
    ready = built(fold, jobs, steps)
    waiting = [job for job in ready.jobs.values() if job.waiting]
    assert sorted(ready.tables[READY].values()) == sorted(job.id.encode() for job in waiting)
    assert sorted(ready.tables[DUE]) == sorted(
        (job.run_at, job.spec.position) for job in waiting if job.run_at > job.updated_at
    )


@given(
    jobs=st.lists(st.tuples(names, names, st.integers(-2, 2), times), min_size=1, max_size=40),
    limit=st.integers(1, 5),
)
def test_rows_read_are_bounded_by_lanes_and_limit(fold, jobs, limit):
    """However many jobs wait, a lease reads a few rows a lane and priority, and one a job it takes."""
    ready = built(fold, jobs)
    ready.handed_out = 0
    taken = first_of(limit, due_places(ready, None, None, b.at(5)))
    lanes = {(queue, kind) for queue, kind, _, _ in jobs}
    priorities = {priority for _, _, priority, _ in jobs}
    assert ready.handed_out <= len(taken) + len(lanes) * (2 + len(priorities)) + len(LANES)
