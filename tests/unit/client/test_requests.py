"""Requests say exactly what was asked, and leave out what was not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec import Raw

from eventjobs import NewJob
from eventjobs.client import Completion, Failure, InvalidValue, Renewal


def said(request, *more):
    """The request's text as a value."""
    return json.loads(request.text(*more))


def test_a_new_job_says_what_was_given_and_nothing_else():
    """Defaults are the coordinator's business."""
    assert said(NewJob("work"), "made-up") == {"kind": "work", "idempotency_key": "made-up", "payload": None}
    full = NewJob(
        "work",
        {"n": 1},
        queue="q",
        priority=0,
        max_attempts=1,
        delay_seconds=0,
        retry_policy={"type": "linear", "base": 5},
        idempotency_key="mine",
    )
    assert said(full, "made-up") == {
        "kind": "work",
        "queue": "q",
        "priority": 0,
        "max_attempts": 1,
        "delay_seconds": 0,
        "retry_policy": {"type": "linear", "base": 5},
        "idempotency_key": "mine",
        "payload": {"n": 1},
    }


def test_an_empty_key_is_not_replaced():
    """A caller who gives an empty key is told by the coordinator, and does not get another."""
    assert said(NewJob("work", idempotency_key=""), "made-up")["idempotency_key"] == ""


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05.000000Z"),
        (datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))), "2030-01-02T01:04:05.000006Z"),
        (datetime(999, 1, 1, tzinfo=UTC), "0999-01-01T00:00:00.000000Z"),
    ],
)
def test_times_are_sent_in_utc_with_microseconds(time, text):
    """Whatever zone they were given in."""
    assert said(NewJob("work", run_at=time), "k")["run_at"] == text


def test_a_time_without_a_zone_is_refused():
    """Nobody knows which moment it is."""
    with pytest.raises(InvalidValue, match="time zone"):
        NewJob("work", run_at=datetime(2030, 1, 1)).text("k")  # noqa: DTZ001


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(number):
    """Written carelessly it would become null, and so the default."""
    for request in (
        lambda: NewJob("work", delay_seconds=number).text("k"),
        lambda: NewJob("work", retry_policy={"type": "constant", "base": number}).text("k"),
        lambda: Renewal("id", 1, number).text(),
        lambda: Failure("id", 1, "e", retry_in_seconds=number).text(),
    ):
        with pytest.raises(InvalidValue):
            request()


def test_settling_items_say_id_token_and_outcome():
    """With the result's text untouched and false not taken for absent."""
    assert said(Renewal("id", 3)) == {"id": "id", "token": 3}
    assert said(Renewal("id", 3, 0.5)) == {"id": "id", "token": 3, "lease_seconds": 0.5}
    assert Completion("id", 3, Raw(b"1.0")).text() == b'{"id":"id","token":3,"result":1.0}'
    assert said(Completion("id", 0)) == {"id": "id", "token": 0, "result": None}
    assert said(Failure("id", 3, "text")) == {"id": "id", "token": 3, "error": "text", "retry": True}
    assert said(Failure("id", 3, {"type": "T", "message": "m"}, retry=False, retry_in_seconds=0)) == {
        "id": "id",
        "token": 3,
        "error": {"type": "T", "message": "m"},
        "retry": False,
        "retry_in_seconds": 0,
    }
