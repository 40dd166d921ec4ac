"""Idempotency keys of requests in the intake: one job and its id, whichever way a key comes to the log or leaves it."""

from __future__ import annotations

import threading

import psycopg
import pytest

from eventjobs.testing import builders as b
from eventjobs.testing.processes import wait_for

ENQUEUE = "SELECT eventjobs.enqueue(%s, %s, idempotency_key => %s)"


def ask(connection, kind="k", payload="null", key=None) -> str:
    return str(connection.execute(ENQUEUE, (kind, payload, key)).fetchone()[0])


def refused(connection) -> list[tuple]:
    columns = "code, id::text, job_id::text, reason"
    return connection.execute(f"SELECT {columns} FROM eventjobs.not_enqueued ORDER BY number").fetchall()


def test_a_key_means_one_job_and_its_id(instance, producer, foreign, sound):
    """Asked again in the same transaction, while the request waits, and when its job is in the log: the same id."""
    first = ask(producer, payload="[1, 2]", key="order-1")
    assert ask(producer, payload="[1,2]", key="order-1") == first
    producer.commit()
    assert ask(producer, payload="[1,2]", key="order-1") == first
    producer.commit()
    instance.take_in()
    assert ask(producer, payload="[ 1,2]", key="order-1") == first
    producer.commit()
    assert len(instance.take_in()) == 1
    assert len(sound(instance.engine)) == 1 and refused(foreign) == []


@pytest.mark.parametrize(("kind", "payload"), [("k", '["a b", 2]'), ("k", '["ab", 1]'), ("other", '["a b", 1]')])
def test_another_request_under_a_key_that_waits_fails_in_the_transaction(producer, kind, payload):
    """As over HTTP, at once; the message has the code, and the detail the id of the other."""
    first = ask(producer, payload='["a b", 1]', key="order-1")
    producer.commit()
    with pytest.raises(psycopg.errors.UniqueViolation, match="idempotency_key_reused") as failure:
        ask(producer, kind, payload, key="order-1")
    assert first in failure.value.diag.message_detail


def test_another_request_under_a_key_of_the_log_is_refused_when_it_is_taken_in(instance, producer, foreign, sound):
    """The producer was given the id of the key's job; the refusal is kept with what was asked for, and seen."""
    first = ask(producer, payload="1", key="order-1")
    producer.commit()
    instance.take_in()
    assert ask(producer, "other", payload="2", key="order-1") == first
    after = ask(producer, "after")
    producer.commit()
    requests = instance.asked()
    assert [each.asked.job_id for each in instance.take_in(requests=requests)] == [first, after]
    ((code, told, job_id, reason),) = refused(foreign)
    assert (code, told, job_id) == ("idempotency_key_reused", first, first) and "differently" in reason
    asked_at, decided_at = foreign.execute("SELECT asked_at, decided_at FROM eventjobs.not_enqueued").fetchone()
    assert asked_at == requests[0][0].time < decided_at
    kept = foreign.execute("SELECT request ->> 'kind', payload, actor FROM eventjobs.not_enqueued").fetchone()
    assert kept == ("other", b"2", "postgres")
    assert [record.job_id for record in sound(instance.engine)] == [first, after]


@pytest.mark.parametrize("same", [True, False])
def test_a_key_that_came_in_over_http_meanwhile_is_told(instance, producer, foreign, sound, same):
    """The job stays that of the first to reach the log; what the producer's id stands for is written down."""
    told = ask(producer, key="order-1", kind="email")
    producer.commit()
    instance.enqueue(b.enqueue(idempotency_key="order-1", payload=None, **({} if same else {"priority": 5})))
    instance.take_in()
    ((code, request, job_id, _),) = refused(foreign)
    assert code == ("same_request" if same else "idempotency_key_reused")
    assert (request, job_id) == (told, b.JOB_ID) and len(sound(instance.engine)) == 1


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_two_transactions_with_one_key_are_one_job(instance, connect, foreign, sound, ends):
    """The second waits for the first, as at any unique key, and is given its id if it was committed, else its own."""
    first, second = connect(), connect()
    told, answers = ask(first, key="order-1"), []
    thread = threading.Thread(target=lambda: answers.append(ask(second, key="order-1")))
    thread.start()
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    wait_for(lambda: foreign.execute(waits).fetchone() == (1,), "the second to wait")
    getattr(first, ends)()
    thread.join()
    second.commit()
    assert (answers == [told]) is (ends == "commit")
    instance.take_in()
    assert [record.job_id for record in sound(instance.engine)] == answers


def test_a_request_that_is_taken_in_while_its_key_is_asked_for(instance, connect, foreign, sound):
    """A producer that comes upon a request just being taken in waits for that commit, and is given the job's id."""
    first, second = connect(), connect()
    told, answers = ask(first, key="order-1"), []
    first.commit()
    requests = instance.asked()

    def ask_meanwhile(handler):
        settled = handler.take_in(requests)
        instance.engine._open.write()
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        wait_for(lambda: foreign.execute(waits).fetchone() == (1,), "the second to wait")
        return settled

    thread = threading.Thread(target=lambda: answers.append(ask(second, key="order-1")))
    instance.take_in_with(requests, ask_meanwhile)
    thread.join()
    second.commit()
    assert answers == [told]
    instance.take_in()
    assert len(sound(instance.engine)) == 1 and refused(foreign) == []


def test_a_snapshot_that_is_too_old_for_the_key_is_told_so(instance, connect, sound):
    """With REPEATABLE READ a key that was asked for since is no silent second job: the database asks to try again."""
    first, second = connect(), connect()
    second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    second.execute("SELECT 1")
    ask(first, key="order-1")
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        ask(second, key="order-1")
    second.rollback()
    instance.take_in()
    assert len(sound(instance.engine)) == 1


def test_serializable_producers_do_not_meet(instance, connect, sound):
    """Two that ask at the same time, under keys or without, are no conflict to the database."""
    producers = [connect(), connect()]
    for number, each in enumerate(producers):
        each.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        ask(each, key=f"order-{number}")
        ask(each)
    for each in producers:
        ask(each, "again")
        each.commit()
    assert len(instance.take_in()) == 6 and len(sound(instance.engine)) == 6


GOING = {"forgotten": [b.forget_key], "retired": [b.retire, b.forget_key], "forgotten first": [b.forget_key, b.retire]}


@pytest.mark.parametrize("again", [None, "sql", "http"])
@pytest.mark.parametrize("going", GOING)
def test_a_key_that_is_forgotten_while_its_request_waits(instance, producer, foreign, sound, going, again):
    """The id is that of a job that is over: no second one comes under it, whatever is left of the first, and whoever
    has the key since; the refusal says why."""
    first = ask(producer, key="order-1")
    producer.commit()
    instance.take_in()
    (job,) = instance.lease(1)
    instance.complete([job])
    assert ask(producer, key="order-1") == first
    producer.commit()
    for command in GOING[going]:
        instance.execute(command(first))
    ids = {first}
    if again == "sql":
        ids.add(ask(producer, key="order-1"))
        producer.commit()
    elif again == "http":
        ids.add(instance.enqueue(b.enqueue(idempotency_key="order-1"))[0].job.id)
    instance.take_in()
    ((code, told, job_id, _),) = refused(foreign)
    assert (code, told, job_id) == ("key_forgotten", first, first)
    enqueued = [record.job_id for record in sound(instance.engine) if record.event.type == "job_enqueued"]
    assert len(enqueued) == len(ids) and set(enqueued) == ids


def test_the_rightful_repeat_is_taken_while_a_wrong_one_waits(instance, producer, foreign, sound):
    """Each request under a key of the log is held against its job, and not against others that wait."""
    first = ask(producer, payload="1", key="order-1")
    producer.commit()
    instance.take_in()
    assert ask(producer, payload="2", key="order-1") == first
    assert ask(producer, payload="1", key="order-1") == first
    producer.commit()
    assert len(instance.take_in()) == 2
    ((code, told, _, _),) = refused(foreign)
    assert (code, told) == ("idempotency_key_reused", first)
    assert len(sound(instance.engine)) == 1
