"""Mistakes of the program that asks: told before anything is sent, in words that name the argument."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

import eventjobs
from eventjobs import BlockingClient, Client, NewJob, Retry, Timeouts
from eventjobs.client import Completion, Failure, InvalidValue, enqueue_in

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda client: client.enqueue("k", run_at="tomorrow"), "run_at is .*'tomorrow'"),
        (lambda client: client.enqueue("k", b"bytes"), "payload cannot be written as JSON"),
        (lambda client: client.enqueue(object()), "kind cannot be written as JSON"),
        (lambda client: client.enqueue("k", retry_policy=5), "retry_policy is .* unlike 5"),
        (lambda client: client.enqueue("k", delay_seconds=float("nan")), "delay_seconds cannot be written"),
        (lambda client: client.enqueue_many(["k"]), r"jobs\[0\] is a NewJob, unlike 'k'"),
        (lambda client: client.enqueue_many(NewJob("k")), "jobs is a list of NewJobs"),
        (lambda client: client.lease("w", queues="fetch"), "queues is a list of names, unlike 'fetch'"),
        (lambda client: client.lease("w", kinds="fetch"), "kinds is a list of names, unlike 'fetch'"),
        (lambda client: client.lease("w", kinds=[1]), "kinds is a list of names"),
        (lambda client: client.lease("w", wait_seconds="3"), "wait_seconds is a number, unlike '3'"),
        (lambda client: client.requeue_dead(ids="abc"), "ids is a list of names, unlike 'abc'"),
        (lambda client: client.job(7), "job_id is a text, unlike 7"),
        (lambda client: client.complete_many([("id", 1)]), r"jobs\[0\] is a Completion"),
        (lambda client: client.complete("id", 1, {1}), "result cannot be written as JSON"),
        (lambda client: client.fail("id", 1, ValueError("x")), "error is .* unlike ValueError"),
        (lambda client: client.fail_many([Failure("id", 1, 5)]), "error is .* unlike 5"),
        (lambda client: client.complete_many([Completion("id", 1, object())]), "result cannot be written"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_named(ask, words):
    """As an InvalidValue, whatever Python would say about it."""

    async def main():
        async with Client(NOWHERE, retry=Retry.never()) as client:
            with pytest.raises(InvalidValue, match=words):
                await ask(client)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Retry(attempts="3"), "attempts"),
        (lambda: Retry(attempts=2.5), "attempts"),
        (lambda: Retry(seconds="45"), "seconds"),
        (lambda: Retry(first_wait_seconds=None), "first_wait_seconds"),
        (lambda: Timeouts(connect_seconds="5"), "connect_seconds"),
        (lambda: Timeouts(answer_seconds=True), "answer_seconds"),
        (lambda: Client(retry=3), "retry"),
        (lambda: BlockingClient(timeouts=5), "timeouts"),
        (lambda: Client(actor=5), "actor"),
    ],
)
def test_a_setting_of_the_wrong_type_is_named(make, name):
    """When it is made."""
    with pytest.raises(TypeError, match=f"^{name} is "):
        make()


def test_a_policy_may_be_given_by_its_name():
    """A name alone stands for the policy with its defaults."""
    assert b'"retry_policy":{"type":"linear"}' in NewJob("k", retry_policy="linear").text("key")


@pytest.mark.parametrize("name", ["InvalidValue", "JobNotFound", "TooLarge"])
def test_the_errors_a_producer_meets_are_at_hand(name):
    """Where programs import from."""
    assert name in eventjobs.__all__
    assert issubclass(getattr(eventjobs, name), eventjobs.EventjobsError)


def test_a_connection_to_another_database_is_told():
    """Jobs are enqueued where the store is, in PostgreSQL."""
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(InvalidValue, match="to PostgreSQL"):
        enqueue_in(connection, "invoice")
