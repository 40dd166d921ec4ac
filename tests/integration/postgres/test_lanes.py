"""Lanes in which nothing waits any more are not kept for ever, in the database and in a coordinator's memory."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from eventjobs.domain.events import Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import State
from eventjobs.store.contract import Needs
from eventjobs.store.postgres import housekeeping, loading
from eventjobs.store.postgres.loading import Lows
from eventjobs.testing import builders as b
from eventjobs.testing.processes import wait_for

QUEUES = [f"queue-{number}" for number in range(30)]
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture(autouse=True)
def few_are_kept(monkeypatch):
    monkeypatch.setattr(housekeeping, "LANES_KEPT", 5)


@pytest.fixture
def lanes(foreign):
    return lambda: [row[0] for row in foreign.execute("SELECT queue FROM eventjobs.lanes ORDER BY queue")]


def test_lanes_where_nothing_waits_go_when_there_are_many(make_instance, lanes, sound):
    """Those with a waiting job, due or not, stay, and jobs are leased from them; a few are not worth the trouble."""
    instance = make_instance()
    instance.enqueue(*[b.enqueue(b.an_id(number), queue=queue) for number, queue in enumerate(QUEUES)])
    instance.enqueue(b.enqueue(b.an_id(900), queue="later", delay=b.seconds(3_600)))
    instance.execute(*[b.cancel(b.an_id(number)) for number in range(3, len(QUEUES))])
    assert len(lanes()) == len(QUEUES) + 1
    instance.engine.maintain()
    assert lanes() == ["later", *QUEUES[:3]]
    assert len(instance.lease(9)) == 3
    instance.engine.maintain()
    assert lanes() == ["later", *QUEUES[:3]]
    instance.enqueue(b.enqueue(b.an_id(901), queue=QUEUES[7]))
    assert [job.id for job in instance.lease(9)] == [b.an_id(901)]
    sound(instance.engine)


def test_a_lane_that_is_used_again_while_it_is_to_be_pruned_stays(make_instance, foreign, lanes):
    """A job comes to wait in it between the look and the deed: the job is found."""
    first, second = make_instance(), make_instance()
    first.enqueue(*[b.enqueue(b.an_id(number), queue=queue) for number, queue in enumerate(QUEUES)])
    first.execute(*[b.cancel(b.an_id(number)) for number in range(len(QUEUES))])
    transaction = first.engine.begin(Needs())
    transaction.append(None, b.enqueued(queue=QUEUES[4]), b.an_id(900), transaction.now(0), b.PRODUCER_ACTOR, b.PAYLOAD)
    pruning = threading.Thread(target=second.engine.maintain)
    pruning.start()
    wait_for(lambda: foreign.execute(WAITS).fetchone() == (1,), "the keeper to wait for its turn")
    first.engine.commit()
    pruning.join()
    assert lanes() == [QUEUES[4]]
    assert [job.id for job in second.lease(1)] == [b.an_id(900)]


def test_jobs_come_and_go_while_lanes_are_pruned(instances, at_once, sound, monkeypatch):
    """Two coordinators put jobs into lanes and take them out, a third clears up all the time: no job is stuck."""
    monkeypatch.setattr(housekeeping, "LANES_KEPT", 0)
    working = threading.Semaphore(0)

    def work(place):
        try:
            for number in range(40):
                job_id = b.an_id(1_000 * (place + 1) + number)
                instances[place].enqueue(b.enqueue(job_id, queue=QUEUES[number % 7]))
                instances[place].complete(instances[place].lease(1))
        finally:
            working.release()

    def prune():
        done = 0
        for _ in count():
            instances[2].engine.maintain()
            done += working.acquire(blocking=False)
            if done == 2:
                return

    at_once(lambda: work(0), lambda: work(1), prune)
    while jobs := instances[0].lease(9):
        instances[0].complete(jobs)
    with instances[0].engine.read() as reader:
        ids = {record.job_id for record in reader.records(0, reader.head().size)}
        assert len(ids) == 80 and {reader.job(job_id).state for job_id in ids} == {State.SUCCEEDED}
    sound(instances[0].engine)


def test_a_coordinator_remembers_the_lanes_it_leased_from_last(monkeypatch):
    """As many as it may; what it has forgotten it looks for from the beginning."""
    monkeypatch.setattr(loading, "LOWS_MAX", 3)
    lows = Lows()
    for queue in ("a", "b", "c", "a", "d"):
        lows.leased([evolve(None, Record(1, b.JOB_ID, 1, b.NOW, b.PRODUCER_ACTOR, b.enqueued(queue=queue)))])
    assert [lane[1] for lane in lows._lows] == ["c", "a", "d"]
