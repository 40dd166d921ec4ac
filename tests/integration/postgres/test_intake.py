"""From a producer's transaction into the log: once, in order, whatever breaks, and holding nobody up."""

from __future__ import annotations

import time
from collections import Counter
from itertools import takewhile
from random import Random

import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.store.contract import Corrupt
from eventjobs.store.postgres.intake import ALL_SECONDS
from eventjobs.store.postgres.listener import CHANNEL
from eventjobs.testing import builders as b

ENQUEUE = "SELECT eventjobs.enqueue(%s, %s, idempotency_key => %s)"


def ask(connection, kind="k", payload="null", key=None) -> str:
    return str(connection.execute(ENQUEUE, (kind, payload, key)).fetchone()[0])


def waiting(connection) -> int:
    return connection.execute("SELECT count(*) FROM eventjobs.intake").fetchone()[0]


def refused(connection) -> list[tuple]:
    columns = "code, id::text, job_id::text, reason"
    return connection.execute(f"SELECT {columns} FROM eventjobs.not_enqueued ORDER BY number").fetchall()


# One transaction --------------------------------------------------------------------------------------------------


def test_a_job_comes_with_its_transaction_or_not_at_all(instance, producer, foreign, sound):
    """Before the commit and after a rollback, also to a savepoint, there is nothing; after the commit all of it."""
    ask(producer)
    assert instance.take_in() == []
    producer.rollback()
    first = ask(producer, payload='{"order" : 1.50}')
    producer.execute("SAVEPOINT here")
    ask(producer, payload="2")
    producer.execute("ROLLBACK TO here")
    second = ask(producer, payload="3")
    assert waiting(foreign) == 0 and instance.take_in() == []
    producer.commit()
    with instance.engine.read() as reader:
        assert reader.job(first) is None
    assert [each.asked.job_id for each in instance.take_in()] == [first, second]
    records = sound(instance.engine)
    assert [(record.job_id, record.event.type) for record in records] == [
        (first, "job_enqueued"),
        (second, "job_enqueued"),
    ]
    assert waiting(foreign) == 0 and refused(foreign) == []
    with instance.engine.read() as reader:
        job = reader.job(first)
        assert reader.content(job.spec.payload) == b'{"order" : 1.50}'
    assert [job.id for job in instance.lease(5)] == [first, second]


def test_the_event_names_who_asked_and_carries_the_time_it_was_taken_in(instance, producer, foreign, sound):
    """By default the role that is logged in, else the name that was given. A delay counts from there."""
    producer.execute("SELECT eventjobs.enqueue('k', delay_seconds => 60)")
    producer.execute("SELECT eventjobs.enqueue('k', actor => 'shop', run_at => '2001-01-01 00:00+00')")
    producer.commit()
    (before,) = foreign.execute("SELECT eventjobs.clock()").fetchone()
    instance.take_in()
    first, second = sound(instance.engine)
    assert first.actor == Actor(ActorType.PRODUCER, "postgres") and second.actor == Actor(ActorType.PRODUCER, "shop")
    assert before <= first.time == second.time
    assert first.event.run_at == first.time + b.seconds(60)
    assert second.event.run_at == 978_307_200_000_000


def test_jobs_come_in_the_order_in_which_they_were_asked_for(instance, connect, sound):
    """Within a transaction, and between two of which one began to ask when the other was committed; also when steps are
    small."""
    long, quick = connect(), connect()
    kinds = [f"long-{number}" for number in range(7)]
    for number, kind in enumerate(kinds):
        ask(long, kind)
        ask(quick, f"quick-{number}")
        quick.commit()
    instance.take_in(3)
    long.commit()
    ask(quick, "late")
    quick.commit()
    while instance.take_in(3):
        pass
    taken = [record.event.kind for record in sound(instance.engine)]
    assert [kind for kind in taken if kind.startswith("long")] == kinds
    assert [kind for kind in taken if kind.startswith("quick")] == [f"quick-{number}" for number in range(7)]
    assert taken[-1] == "late"


# Many, and faults -------------------------------------------------------------------------------------------------


def test_many_producers_and_coordinators_at_once(instances, connect, at_once, foreign, sound):
    """Each request becomes one job, those of one transaction in order; rollbacks leave nothing, and the log is one."""
    transactions, jobs = 12, 15

    def produce(connection, place):
        random = Random(place)
        for transaction in range(transactions):
            for number in range(jobs):
                ask(connection, f"p{place}-{transaction}", payload=str(number))
            connection.rollback() if random.random() < 0.3 else connection.commit()
        done.append(place)

    done: list[int] = []
    producers = [connect() for _ in range(3)]
    producing = [lambda each=each, place=place: produce(each, place) for place, each in enumerate(producers)]

    def take(instance):
        while len(done) < len(producers) or waiting_in(instance):
            instance.take_in(10)

    def waiting_in(instance):
        with instance.engine.read() as view:
            return view.asked(1, 1)

    at_once(*producing, *[lambda each=each: take(each) for each in instances])
    records = sound(instances[0].engine)
    assert len(records) == len({record.job_id for record in records})
    assert set(Counter(record.event.kind for record in records).values()) == {jobs}
    with instances[0].engine.read() as reader:
        met: dict[str, list[bytes]] = {}
        for record in records:
            met.setdefault(record.event.kind, []).append(reader.content(reader.job(record.job_id).spec.payload))
    assert all(sent == [str(number).encode() for number in range(jobs)] for sent in met.values())
    assert waiting(foreign) == 0 and refused(foreign) == []


def test_a_coordinator_whose_hands_are_full_is_not_waited_for(instances, producer, foreign, sound):
    """While one has the intake in hand others take nothing from it and do not wait; what they wanted stays."""
    holder, other, _ = instances
    first = ask(producer)
    producer.commit()
    requests = holder.asked()

    def meanwhile(handler):
        ask(producer)
        producer.commit()
        foreign.execute("SET lock_timeout = '100ms'")
        numbers = [asked.number for asked, _ in other.asked()]
        assert len(numbers) == 2
        assert foreign.execute("SELECT * FROM eventjobs.lock_intake(%s)", (numbers,)).fetchall() == []
        return handler.take_in(requests)

    assert [each.asked.job_id for each in holder.take_in_with(requests, meanwhile)] == [first]
    assert other.take_in(requests=requests) == []
    assert len(other.take_in()) == 1
    assert len(sound(other.engine)) == 2


@pytest.mark.parametrize("done", [True, False])
def test_a_step_whose_answer_was_lost_is_done_once(instance, producer, lossy, sound, done):
    """The connection breaks at the commit: event and intake's row went together, or stayed together."""
    told = ask(producer)
    producer.commit()
    lossy(done)
    requests = instance.asked()
    instance.take_in(requests=requests)
    assert instance.take_in() == []
    assert [record.job_id for record in sound(instance.engine)] == [told]


def test_a_coordinator_that_ends_before_its_commit_leaves_the_request(instances, producer, foreign, sound):
    """Its transaction is gone, and another takes the request in."""
    told = ask(producer)
    producer.commit()
    first, second, _ = instances
    requests = first.asked()

    def ended(handler):
        handler.take_in(requests)
        first.engine._open.write()
        first.engine._session.drop()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.take_in_with(requests, ended)
    assert waiting(foreign) == 1
    assert [each.asked.job_id for each in second.take_in()] == [told]
    assert [record.job_id for record in sound(second.engine)] == [told]


def test_a_producer_that_leaves_its_transaction_open_holds_nobody_up(instances, connect, foreign, sound):
    """Other producers, leases, completions, expiries and the intake go on beside it, without waiting."""
    open_long, other = connect(), connect()
    ask(open_long, "slow", key="slow")
    foreign.execute("SET lock_timeout = '1s'")
    ask(other, "quick", key="quick")
    other.commit()
    assert len(instances[0].take_in()) == 1
    instances[1].enqueue(b.enqueue())
    jobs = instances[2].lease(5)
    instances[1].complete(jobs)
    instances[0].engine.maintain()
    assert len(jobs) == 2 and len(sound(instances[0].engine)) == 6
    open_long.commit()
    assert len(instances[1].take_in()) == 1


def test_a_job_that_somebody_has_locked_is_not_waited_for(instance, producer, connect, foreign, sound):
    """A request under the key of that job, and those beside it, are taken in all the same."""
    first = ask(producer, key="order-1")
    producer.commit()
    instance.take_in()
    somebody = connect()
    somebody.execute("SELECT * FROM eventjobs.jobs FOR UPDATE")
    ask(producer, key="order-1")
    other = ask(producer)
    producer.commit()
    assert [each.asked.job_id for each in instance.take_in()] == [first, other]
    assert len(sound(instance.engine)) == 2 and refused(foreign) == [] and instance.broken_off == 0


def test_a_commit_is_told_of_at_once_unless_that_is_not_wanted(producer, foreign):
    """A notification of the producer's own transaction comes with its commit; `wake => false` sends none."""
    foreign.execute(f"LISTEN {CHANNEL}")

    def told() -> int:
        foreign.execute("SELECT pg_notify(%s, 'end')", (CHANNEL,))
        payloads = (notice.payload for notice in foreign.notifies(timeout=10))
        return len(list(takewhile(lambda payload: payload != "end", payloads)))

    producer.execute("SELECT eventjobs.enqueue('k', wake => false)")
    producer.commit()
    assert told() == 0
    ask(producer)
    assert told() == 0
    producer.commit()
    assert told() == 1


def test_one_large_transaction_is_taken_in_by_steps_of_bounded_size(instance, producer, sound):
    """A step has some requests and some bytes at the most, but one at least."""
    for _ in range(3):
        ask(producer, payload='"' + "x" * 1_000 + '"')
    producer.commit()
    steps = [(10, 1), (10, 2_500), (10, 1 << 20), (2, 1 << 20)]
    with instance.engine.read() as view:
        assert [len(view.asked(limit, size)) for limit, size in steps] == [1, 2, 3, 2]


def test_what_was_taken_in_is_not_walked_over_again(instance, connect, foreign):
    """While somebody holds a snapshot, dead rows stay; looks begin above them. Not as long as a producer that began
    earlier may still come below: its jobs are found, and then it goes on."""
    foreign.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    foreign.execute("SELECT 1")
    early, quick = connect(), connect()
    low = instance.engine._intake_low
    assert low.number == 0

    def take(count):
        for _ in range(count):
            ask(quick)
        quick.commit()
        assert len(instance.take_in()) == count
        instance.take_in()
        return low.number

    first = take(3)
    assert first == 3
    told = ask(early)
    assert take(2) == first
    assert take(2) == first
    early.commit()
    assert [each.asked.job_id for each in instance.take_in()] == [told]
    instance.take_in()
    assert low.number > first
    assert take(2) > first + 5
    foreign.execute("ROLLBACK")


def test_what_was_refused_is_kept_for_a_month(instance, foreign):
    """The keeper deletes what is older, and nothing else."""
    day = 24 * 3_600 * 1_000_000
    for number, days in enumerate((31, 29, 31), 1):
        foreign.execute(
            "INSERT INTO eventjobs.not_enqueued (number, id, code, reason, request, actor, asked_at, decided_at) "
            "VALUES (%s, gen_random_uuid(), 'failed', 'r', '{}', 'a', 0, eventjobs.clock() - %s)",
            (number, days * day),
        )
    instance.engine.maintain()
    assert foreign.execute("SELECT number FROM eventjobs.not_enqueued").fetchall() == [(2,)]


def test_pulses_alone_walk_over_what_is_dead_once_a_minute(instance, connect, monkeypatch):
    """A coordinator at which nothing arrives looks from the beginning now and then, and not with each pulse after."""
    quick = connect()
    for _ in range(3):
        ask(quick)
    quick.commit()
    instance.take_in()
    instance.take_in()
    low = instance.engine._intake_low
    assert low.number == 3
    monkeypatch.setattr(low, "_clock", lambda: time.monotonic() + ALL_SECONDS)
    assert low.number == 0
    assert instance.engine.pulse().asked_at is None
    assert low.number == 3


def test_a_producer_that_began_last_and_asked_first_is_waited_for(instance, connect):
    """Its transaction is the newest of all, its request lies below one that was taken in: looks begin below it."""
    early, quick = connect(), connect()
    quick.execute("SELECT pg_current_xact_id()")
    told = ask(early)
    after = ask(quick)
    quick.commit()
    assert [each.asked.job_id for each in instance.take_in()] == [after]
    for _ in range(3):
        assert instance.take_in() == []
    early.commit()
    assert [each.asked.job_id for each in instance.take_in()] == [told]


def test_a_key_whose_job_is_damaged_stops_nobody_else(instance, producer, foreign):
    """The holder's row cannot be read: whoever asks for that key is told; a transaction can begin all the same."""
    first = ask(producer, key="order-1")
    producer.commit()
    instance.take_in()
    foreign.execute("UPDATE eventjobs.jobs SET value = set_byte(value, 0, 255 - get_byte(value, 0))")
    ask(producer, key="order-1")
    told = ask(producer, key="order-2")
    producer.commit()
    requests = instance.asked()
    assert [asked.job_id for asked, _ in requests] == [first, told]
    settled = instance.take_in_with(requests, lambda handler: handler.take_in(requests[1:]))
    assert [each.asked.job_id for each in settled] == [told]
    with pytest.raises(Corrupt):
        instance.take_in()
