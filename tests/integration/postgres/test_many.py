"""Many coordinators on one database: one log, one queue, no job twice, and nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import pytest

from eventjobs.domain.job import State
from eventjobs.domain.rejections import Rejection
from eventjobs.projections import stats
from eventjobs.store.contract import LeaseNeed, Needs, StoreError
from eventjobs.store.postgres import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.processes import wait_for

JOBS = 240


def fill(instance, count=JOBS, **options):
    instance.enqueue(*[b.enqueue(b.an_id(number), **options) for number in range(count)])


def drain(instance, size):
    """Lease and complete until there is nothing more; the ids in order."""
    met = []
    while jobs := instance.lease(size):
        met += [job.id for job in jobs]
        instance.complete(jobs)
    return met


def test_leases_are_disjoint_and_the_log_is_one(instances, at_once, sound):
    """Three coordinators drain one queue at the same time: each job is leased once, and the log is gapless."""
    fill(instances[0])
    met = at_once(*[lambda place=place: drain(instances[place], 7 + 3 * place) for place in range(3)])
    left = drain(instances[0], 100)
    assert sorted(chain(left, *met)) == [b.an_id(number) for number in range(JOBS)]
    records = sound(instances[1].engine)
    assert Counter(record.event.type for record in records) == {
        "job_enqueued": JOBS,
        "job_leased": JOBS,
        "job_completed": JOBS,
    }
    with instances[2].engine.read() as reader:
        assert stats.read(reader).jobs["succeeded"] == JOBS


def test_a_key_is_one_job_whoever_enqueues_it(instances, at_once, sound):
    """Three coordinators enqueue under the same keys at the same time, in differing orders: one job a key."""
    keys = [f"key-{number}" for number in range(40)]

    def enqueue(place):
        random, made = Random(place), []
        for _ in range(4):
            some = random.sample(keys, 20)
            commands = [b.enqueue(b.an_id(1_000 * (place + 1) + each), idempotency_key=key) for each, key in
                        enumerate(some, len(made))]  # fmt: skip
            made += zip(some, instances[place].enqueue(*commands), strict=True)
        return made

    answers = list(chain(*at_once(*[lambda place=place: enqueue(place) for place in range(3)])))
    held = {}
    for key, reply in answers:
        assert held.setdefault(key, reply.job.id) == reply.job.id
    records = sound(instances[0].engine)
    assert len(records) == len(held) == sum(reply.created for _, reply in answers)


def test_random_orders_do_not_deadlock(instances, at_once, sound, foreign):
    """Commands for few jobs in any order, said beforehand or not: PostgreSQL never finds a deadlock."""
    fill(instances[0], 12)

    def meddle(place):
        random, instance = Random(place), instances[place]
        for _ in range(25):
            ids = random.sample([b.an_id(number) for number in range(12)], 5)
            makes = [random.choice([b.cancel, b.requeue, b.release, b.renew]) for _ in ids]
            commands = [make(job_id) for make, job_id in zip(makes, ids, strict=True)]
            instance.execute(*commands, declared=random.random() < 0.5)
            instance.complete(instance.lease(random.randrange(1, 4)))

    at_once(*[lambda place=place: meddle(place) for place in range(3)])
    sound(instances[0].engine)
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert foreign.execute(query).fetchone() == (0,)


def test_rows_that_others_hold_are_passed_over(make_instance, foreign, sound):
    """A lease takes the next jobs at once when somebody has the first ones locked."""
    instance = make_instance()
    fill(instance, 20)
    with foreign.transaction():
        foreign.execute("SELECT FROM eventjobs.jobs WHERE position <= 5 FOR UPDATE")
        assert [job.id for job in instance.lease(3)] == [b.an_id(number) for number in (5, 6, 7)]
    assert [job.id for job in instance.lease(3)] == [b.an_id(number) for number in (8, 9, 10)]
    found = wait_for(lambda: [job.id for job in instance.lease(1) if job.spec.position <= 5], "a look from the start")
    assert found == [b.an_id(0)]


def test_many_lanes_are_leased_in_one_order(instances):
    """Across queues, kinds and priorities the best jobs come first, however they are spread over lanes."""
    random = Random(5)
    commands = [
        b.enqueue(b.an_id(number), queue=random.choice("abcdef"), kind=random.choice("xy"), priority=number % 3)
        for number in range(300)
    ]
    instances[0].enqueue(*commands)
    met = []
    for place in range(60):
        met += instances[place % 3].lease(5)
    wanted = sorted(range(300), key=lambda number: (-(number % 3), number))
    assert [job.id for job in met] == [b.an_id(number) for number in wanted]


def test_several_leases_of_one_transaction(make_instance):
    """Requests of one group share what was locked for them, filters overlap, and a job given back is there again."""
    instance = make_instance()
    instance.enqueue(*[b.enqueue(b.an_id(number), queue="ab"[number % 2]) for number in range(12)])
    leases = [(["a"], 2), (None, 3), (["b"], 9), (None, 9)]
    needs = Needs(leases=tuple(LeaseNeed(queues, None, limit, b.WORKER, None) for queues, limit in leases))

    def work(handler):
        found = []
        for queues, limit in leases:
            found.append([job.id for job in handler.lease(b.lease(), queues, None, limit).jobs])
            handler.execute([b.release(found[-1][0], token=1)] if found[-1] else [])
        return found

    first, second, third, fourth = instance.run(needs, work)
    assert first == [b.an_id(0), b.an_id(2)]
    assert second == [b.an_id(1), b.an_id(3), b.an_id(4)]
    assert third == [b.an_id(number) for number in (5, 7, 9, 11, 1)]
    assert fourth == [b.an_id(number) for number in (6, 8, 10, 0, 5)]


def test_one_expiry_however_many_look(instances, at_once, sound):
    """Three rescuers at the same time: each lease that ran out is in the log once."""
    fill(instances[0], 30)
    instances[0].lease(30, b.lease(duration=1))
    assert sum(at_once(*[each.expire for each in instances])) == 30
    records = sound(instances[0].engine)
    assert sum(record.event.type == "lease_expired" for record in records) == 30


def test_the_database_tells_the_time(instances, foreign, sound):
    """Whatever the coordinators' clocks say, records carry the database's time, and durations count from there."""
    (before,) = foreign.execute("SELECT eventjobs.clock()").fetchone()
    for place, instance in enumerate(instances):
        instance.enqueue(b.enqueue(b.an_id(place), now=b.at(1e8 * place), delay=0))
        (job,) = instance.lease(1, b.lease(now=b.at(-1e8 * place), duration=b.seconds(30)))
        assert job.lease.expires_at == job.updated_at + b.seconds(30)
    (after,) = foreign.execute("SELECT eventjobs.clock()").fetchone()
    times = [record.time for record in sound(instances[0].engine)]
    assert before <= times[0] <= times[-1] <= after


def test_a_snapshot_held_by_somebody_else_changes_nothing(instances, foreign, at_once, sound):
    """A transaction that is open all the time keeps dead rows, and holds nobody up."""
    fill(instances[0])
    foreign.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    foreign.execute("SELECT count(*) FROM eventjobs.jobs")
    met = list(chain(*at_once(*[lambda each=each: drain(each, 10) for each in instances])))
    met += drain(instances[0], 100)
    assert len(met) == len(set(met)) == JOBS
    assert foreign.execute("SELECT count(*) FROM eventjobs.jobs WHERE waiting").fetchone() == (JOBS,)
    foreign.execute("ROLLBACK")
    sound(instances[0].engine)


def test_counters_are_folded_by_one_keeper(instances, foreign, at_once, sound):
    """Housekeeping on all coordinators at once: the deltas are gone, the sums are the same."""
    fill(instances[0])
    drain(instances[1], 50)
    with instances[0].engine.read() as reader:
        before = stats.read(reader)
    at_once(*[each.engine.maintain for each in instances])
    instances[0].engine.maintain()
    assert foreign.execute("SELECT count(*) FROM eventjobs.counter_deltas").fetchone() == (0,)
    with instances[0].engine.read() as reader:
        assert stats.read(reader) == before
    sound(instances[0].engine)


def test_whoever_keeps_less_is_refused(make_instance, url):
    """When a coordinator with other read models took over, one with the old ones writes no more, and says why."""
    old = make_instance()
    old.enqueue(b.enqueue())
    open_engine(url, ()).close()
    with pytest.raises(StoreError, match="restart"):
        old.enqueue(b.enqueue(b.an_id(2)))
    with old.engine.read() as reader:
        assert reader.job(b.JOB_ID).state is State.QUEUED


def test_a_newer_store_is_refused_and_left_alone(make_instance, foreign, url):
    """A schema that only newer programs may use: the message says so, and nothing changes."""
    make_instance().enqueue(b.enqueue())
    foreign.execute("UPDATE eventjobs.meta SET number = 99 WHERE name = 'oldest_program'")
    with pytest.raises(StoreError, match="use a newer one"):
        make_instance()
    foreign.execute("UPDATE eventjobs.meta SET number = 99 WHERE name = 'schema'")
    foreign.execute("UPDATE eventjobs.meta SET number = 1 WHERE name = 'oldest_program'")
    assert not isinstance(make_instance().execute(b.cancel())[0], Rejection)


def test_many_open_an_empty_database_at_once(make_instance, at_once, sound):
    """Coordinators that start together make one schema."""
    opened = at_once(*[make_instance] * 4)
    for number, instance in enumerate(opened):
        instance.enqueue(b.enqueue(b.an_id(number)))
    assert len(sound(opened[0].engine)) == 4
