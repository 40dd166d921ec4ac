"""Registering handlers, and what they are given."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading

import pytest

from eventjobs import JobContext, Worker
from eventjobs.client import InvalidValue
from eventjobs.worker.handlers import Handlers

PLACE = contextvars.ContextVar("PLACE", default="nowhere")


async def on_loop(job):
    """An asynchronous function."""


class CallableOnLoop:
    """An object whose call is asynchronous."""

    async def __call__(self, job):
        """Nothing."""


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (on_loop, True),
        (functools.partial(on_loop), True),
        (CallableOnLoop(), True),
        (lambda job: None, False),
        (functools.partial(max, 1), False),
    ],
)
def test_asynchronous_functions_are_told_from_plain_ones(function, is_async):
    """Coroutine functions run on the loop, also when wrapped; everything else in threads."""
    handlers = Handlers()
    handlers.add("work", function)
    assert handlers.of("work").is_async is is_async


def test_a_kind_has_one_handler():
    """Registering a second one is a mistake that is told at once."""
    worker = Worker()
    returned = worker.handler("work")(on_loop)
    assert returned is on_loop
    with pytest.raises(ValueError, match="'work' already"):
        worker.handler("work")(on_loop)
    with pytest.raises(TypeError, match="not a function"):
        worker.handler("other")("text")


def test_a_context_shows_the_job_and_nothing_can_be_mistyped(job):
    """All that a handler needs, with the payload as value and as text."""
    context = JobContext(job("j", "resize", b'{"n": 1.0, "big": 12345678901234567890123}', 3, 7, "images"))
    assert (context.id, context.kind, context.queue, context.attempt, context.token) == ("j", "resize", "images", 3, 7)
    assert context.payload == {"n": 1.0, "big": 12345678901234567890123}
    assert context.payload is context.payload
    assert context.payload_text == '{"n": 1.0, "big": 12345678901234567890123}'
    assert (context.canceled, context.wait_canceled(0)) == (False, False)
    context.cancel()
    assert (context.canceled, context.wait_canceled(60)) == (True, True)
    with pytest.raises(AttributeError):
        context.cancelled = True


def test_a_payload_that_python_does_not_read_is_told_by_name(job):
    """The exact text is there even when it has more digits than Python takes."""
    context = JobContext(job(payload=b"1" * 5_000))
    assert len(context.payload_text) == 5_000
    with pytest.raises(InvalidValue, match="digits"):
        _ = context.payload


def test_plain_functions_run_in_threads_of_their_own(play):
    """As many at once as the worker's concurrency, off the loop's thread, with its context variables."""

    async def scene(stage):
        together = threading.Barrier(3)

        @stage.worker.handler("work")
        def work(job):
            together.wait(20)
            assert threading.current_thread().daemon
            return [threading.get_ident() != loop_thread, PLACE.get()]

        loop_thread = threading.get_ident()
        PLACE.set("here")
        rows = [stage.coordinator.add("work") for _ in range(6)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        assert {bytes(row.result) for row in rows} == {b'[true,"here"]'}

    play(scene, real=True, concurrency=3)


def test_a_thread_is_told_to_stop_and_keeps_its_slot_until_it_does(play):
    """A thread cannot be canceled: it sees `job.canceled`, holds up the next job, and its outcome goes nowhere."""

    async def scene(stage):
        told, leave = threading.Event(), threading.Event()

        @stage.worker.handler("work")
        def work(job):
            if job.wait_canceled(20):
                told.set()
            leave.wait(20)
            return "late"

        @stage.worker.handler("next")
        async def following(job):
            return leave.is_set()

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.cancel(row)
        other = stage.coordinator.add("next")
        assert await asyncio.to_thread(told.wait, 20)
        assert stage.said("lease_over")
        assert other.state == "queued"
        leave.set()
        await stage.coordinator.until(lambda: other.state == "succeeded")
        assert bytes(other.result) == b"true"
        assert row.log == ["leased", "canceled"]
        assert len(stage.said("outcome_dropped")) == 1

    play(scene, real=True, concurrency=1, lease_seconds=0.3)
