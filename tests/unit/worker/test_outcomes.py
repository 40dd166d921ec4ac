"""How attempts end: whatever a handler returns or raises becomes something that can be sent."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from eventjobs import GiveUp, JobContext, RetryIn
from eventjobs.client.requests import Completion, Failure
from eventjobs.domain.limits import CONTENT_BYTES_MAX, ERROR_TEXT_BYTES_MAX
from eventjobs.worker.outcomes import completion, failure

TWENTY_THREE_DIGITS = 12345678901234567890123


@pytest.fixture
def context(job) -> JobContext:
    """The attempt whose end is described."""
    return JobContext(job())


@pytest.fixture
def raised(context) -> Callable[[BaseException], Failure]:
    """The failure that an exception becomes."""

    def run(error: BaseException) -> Failure:
        try:
            raise error
        except BaseException as caught:  # noqa: BLE001
            return failure(context, caught)

    return run


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (TWENTY_THREE_DIGITS, str(TWENTY_THREE_DIGITS)),
        ({"b": 1.0, "a": [True, "é\n"]}, '{"b":1.0,"a":[true,"é\\n"]}'),
        ((1, 2), "[1,2]"),
    ],
)
def test_a_return_value_is_the_result(context, value, text):
    """What the handler returned is sent as JSON, exactly."""
    done = completion(context, value)
    assert isinstance(done, Completion)
    assert (done.id, done.token, bytes(done.result).decode()) == ("job-1", 1, text)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, float("nan"), b"bytes", "\ud800", {"deep": [float("inf")]}, 10**5_000],
    ids=["object", "set", "nan", "bytes", "surrogate", "infinity", "too many digits"],
)
def test_a_value_that_is_no_json_fails_for_good(context, value):
    """Trying again would not help: the handler is wrong."""
    failed = completion(context, value)
    assert isinstance(failed, Failure)
    assert (failed.retry, failed.error["type"]) == (False, "InvalidResult")
    assert type(value).__name__ in failed.error["message"]
    json.loads(failed.text())


def test_endless_values_fail_for_good(context):
    """A value that contains itself, or is nested without end, is no result."""
    loop: list = []
    loop.append(loop)
    deep: list = []
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    assert completion(context, loop).error["type"] == "InvalidResult"
    assert completion(context, deep).error["type"] == "InvalidResult"


def test_a_result_over_its_limit_fails_for_good(context):
    """The limit is named, and nothing is cut."""
    assert isinstance(completion(context, "x" * (CONTENT_BYTES_MAX - 2)), Completion)
    failed = completion(context, "x" * (CONTENT_BYTES_MAX - 1))
    assert not failed.retry
    assert f"{CONTENT_BYTES_MAX + 1} bytes; at most {CONTENT_BYTES_MAX}" in failed.error["message"]


def test_an_exception_says_its_type_message_and_where(raised):
    """Builtins go by their name, others with their module."""
    failed = raised(ValueError("no such file"))
    assert (failed.retry, failed.retry_in_seconds) == (True, None)
    assert (failed.error["type"], failed.error["message"]) == ("ValueError", "no such file")
    assert failed.error["traceback"].endswith("ValueError: no such file\n")
    assert raised(json.JSONDecodeError("m", "d", 0)).error["type"] == "json.decoder.JSONDecodeError"


@pytest.mark.parametrize("error", [GiveUp("no"), RetryIn(1, "no")], ids=["GiveUp", "RetryIn"])
def test_our_exceptions_go_by_the_name_they_are_imported_under(raised, error):
    """Whoever raised eventjobs.GiveUp reads that name, in the traceback too; it can be pickled under it."""
    failed = raised(error)
    assert failed.error["type"] == f"eventjobs.{type(error).__name__}"
    assert failed.error["traceback"].endswith(f"\neventjobs.{type(error).__name__}: no\n")
    assert pickle.loads(pickle.dumps(type(error))) is type(error)


def test_handlers_can_decide_about_the_retry(raised):
    """GiveUp is the end, RetryIn names the time."""
    assert not raised(GiveUp("bad address")).retry
    later = raised(RetryIn(90.5, "rate limited"))
    assert (later.retry, later.retry_in_seconds, later.error["message"]) == (True, 90.5, "rate limited")


@pytest.mark.parametrize("seconds", [Decimal("1.5"), Fraction(3, 2)])
def test_a_delay_may_be_any_sort_of_number(raised, seconds):
    """What is sent is one that JSON has."""
    later = raised(RetryIn(seconds))
    assert (type(later.retry_in_seconds), later.retry_in_seconds) == (float, 1.5)
    assert b'"retry_in_seconds":1.5' in later.text()


def test_decisions_survive_a_process_pool():
    """A handler may do its work in other processes, which send exceptions back pickled."""
    again = pickle.loads(pickle.dumps(RetryIn(5, "busy")))
    assert (type(again), again.seconds, str(again)) == (RetryIn, 5, "busy")
    assert str(pickle.loads(pickle.dumps(GiveUp("no")))) == "no"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 7 * 86_400 + 1])
def test_a_delay_out_of_bounds_is_told_where_it_is_made(seconds):
    """The coordinator would refuse it; the handler's author sees it at once."""
    with pytest.raises(ValueError, match="retry delay"):
        RetryIn(seconds)


def test_texts_that_cannot_be_sent_are_made_sendable(raised):
    """Lone surrogates are escaped and long texts cut: a message keeps its beginning, a traceback its end."""
    failed = raised(OSError("file \udcff" + "é" * ERROR_TEXT_BYTES_MAX))
    assert failed.error["message"].startswith("file \\udcff")
    assert failed.error["message"].endswith("é … (cut) … ")
    assert failed.error["traceback"].startswith(" … (cut) … é")
    assert all(len(text.encode()) <= ERROR_TEXT_BYTES_MAX for text in failed.error.values())


def test_an_exception_without_words_is_a_failure_too(raised):
    """An exception whose text cannot be made is told by what came in the way."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("broken")

    assert raised(Mute()).error["message"] == "(no message: RuntimeError while asking for it)"


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("error", [ValueError, SystemExit, StopIteration, asyncio.CancelledError, KeyError])
def test_no_exception_of_a_handler_stops_the_worker(play, error, plain):
    """Whatever is raised, in a thread or on the loop, fails the attempt; the worker goes on."""

    async def scene(stage):
        @stage.worker.handler("break")
        async def breaks(job):
            raise error("x")

        @stage.worker.handler("break-plain")
        def breaks_plainly(job):
            raise error("x")

        @stage.worker.handler("work")
        async def work(job):
            return 1

        broken = stage.coordinator.add("break-plain" if plain else "break")
        stage.start()
        await stage.coordinator.until(lambda: broken.error is not None)
        name = "RuntimeError" if not plain and error is StopIteration else error.__name__
        assert broken.error.error["type"].endswith(name)
        assert "eventjobs/worker" not in broken.error.error["traceback"]
        assert "raise error" in broken.error.error["traceback"]
        row = stage.coordinator.add("work")
        await stage.coordinator.until(lambda: row.state == "succeeded")

    play(scene, real=True, grace_seconds=0)
