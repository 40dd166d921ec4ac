"""A producer's body becomes an Enqueue command, or every fault of it is told."""

from __future__ import annotations

import json

import pytest

from eventjobs.domain.content import Content
from eventjobs.domain.limits import CONTENT_BYTES_MAX, DELAY_SECONDS_MAX, MICROSECONDS
from eventjobs.domain.retry import DEFAULT_POLICY, Constant, Exponential, Linear
from eventjobs.testing import builders
from eventjobs.testing.builders import an_id, seconds

SALT = bytes(16)


def test_the_least_body_gets_every_default(enqueue):
    """A kind is enough."""
    assert enqueue({"kind": "email"}) == builders.enqueue(an_id(1), payload=None, now=builders.NOW)


def test_a_full_body_is_taken_as_it_is(enqueue):
    """Every field finds its place in the command."""
    asked = {
        "kind": "a.b_c:d/e@f-9",
        "payload": {"n": [1, None]},
        "queue": "images",
        "priority": -100,
        "max_attempts": 1000,
        "run_at": "2030-01-01T00:00:00.5+02:00",
        "retry_policy": {"type": "Linear", "base": 2, "max_delay": 3.5, "jitter": 1},
        "idempotency_key": "clé 1",
    }
    assert enqueue(asked) == builders.enqueue(
        an_id(1),
        kind="a.b_c:d/e@f-9",
        payload=Content(b'{"n":[1,null]}', SALT),
        queue="images",
        priority=-100,
        max_attempts=1000,
        run_at=1893448800 * MICROSECONDS + 500_000,
        retry_policy=Linear(2, 3.5, 1),
        idempotency_key="clé 1",
        now=builders.NOW,
    )


def test_job_type_is_another_name_for_kind(enqueue, faults_of):
    """Either name is taken, both when they agree; null counts as left out."""
    assert enqueue({"job_type": "email"}).kind == "email"
    assert enqueue({"kind": "email", "job_type": "email"}).kind == "email"
    assert enqueue({"kind": None, "job_type": "email"}).kind == "email"
    assert set(faults_of(enqueue, {"kind": "a", "job_type": "b"})) == {"job_type"}
    assert set(faults_of(enqueue, {"kind": 1, "job_type": "b"})) == {"kind"}
    assert faults_of(enqueue, {"kind": None, "job_type": None}) == {"kind": "is required"}


def test_null_means_left_out(enqueue):
    """Null in an optional field is the default; in the payload it is the value null."""
    fields = ("queue", "priority", "max_attempts", "run_at", "delay_seconds", "retry_policy", "idempotency_key")
    assert enqueue({"kind": "email", **dict.fromkeys(fields)}) == builders.enqueue(
        an_id(1), payload=None, now=builders.NOW
    )
    assert enqueue({"kind": "k", "payload": None}).payload is None


@pytest.mark.parametrize(
    "text",
    [
        b"12345678901234567890123",
        b"1.0",
        b"1e2",
        b"-0",
        b"1e400",
        b'{"b":1,"a":[ 1 , {} ],"b":2}',
        b'"\\u00e9\\n"',
        b"false",
        b'""',
    ],
)
def test_a_payload_keeps_its_text(enqueue, text):
    """The bytes between comma and brace are kept: digits, order, escapes, inner space."""
    assert enqueue(b'{"payload" : %s ,"kind":"k"}' % text).payload == Content(text, SALT)


def test_every_fault_is_told_at_once(enqueue, faults_of):
    """One refusal names each field that is wrong."""
    faults = faults_of(
        enqueue,
        {
            "kind": "a b",
            "queue": "q" * 129,
            "priority": True,
            "max_attempts": 0,
            "run_at": "tomorrow",
            "delay_seconds": "1",
            "retry_policy": {"type": "linear", "base": -1, "max_delay": True, "color": 1},
            "idempotency_key": "",
            "surprise": 1,
        },
    )
    assert set(faults) == {
        "kind",
        "queue",
        "priority",
        "max_attempts",
        "run_at",
        "delay_seconds",
        "retry_policy.base",
        "retry_policy.max_delay",
        "retry_policy.color",
        "idempotency_key",
        "surprise",
    }


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("kind", ["a", "Z" * 128, "._:/@-"], ["", "a" * 129, "a b", "é", "a\n", 1, ["a"], True]),
        ("queue", ["a", "9" * 128], ["", "a" * 129, "a\x00b", 1.5]),
        ("priority", [-100, 0, 100], [-101, 101, 1.0, 1e1, True, "1", [1], 10**30]),
        ("max_attempts", [1, 1000], [0, 1001, -1, 5.0, False, "5"]),
        ("delay_seconds", [0, 0.25, DELAY_SECONDS_MAX], [-0.001, DELAY_SECONDS_MAX + 1, True, "1", [], 10**400]),
        ("idempotency_key", [" ", "a" * 255, "日本", "😀"], ["", "a" * 256, "a\n", "\x7f", "\u2028", 1, False]),
    ],
)
def test_bounds_of_values(enqueue, faults_of, field, good, bad):
    """What is within a field's bounds is taken; what is beyond them or of another type is refused at its path."""
    for value in good:
        enqueue({"kind": "k", field: value})
    for value in bad:
        body = json.dumps({"kind": "k", field: value}).encode()
        assert set(faults_of(enqueue, body)) == {field}, value


def test_numbers_beyond_all_range_are_out_of_bounds(enqueue, faults_of):
    """A number that no float or integer can hold is refused like any other that is too large."""
    for literal in (b"1e400", b"-1e400", b"9" * 5000, b"-" + b"9" * 5000):
        assert set(faults_of(enqueue, b'{"kind":"k","delay_seconds":%s}' % literal)) == {"delay_seconds"}
        assert set(faults_of(enqueue, b'{"kind":"k","priority":%s}' % literal)) == {"priority"}


def test_time_and_delay_exclude_each_other(enqueue, faults_of):
    """A job has one schedule; the fault is told beside those of the values themselves."""
    assert enqueue({"kind": "k", "delay_seconds": 1.5}).delay == seconds(1.5)
    assert set(faults_of(enqueue, {"kind": "k", "run_at": "2020-01-01T00:00:00Z", "delay_seconds": 0})) == {
        "delay_seconds"
    }
    assert set(faults_of(enqueue, {"kind": "k", "run_at": "x", "delay_seconds": 0})) == {"run_at", "delay_seconds"}
    assert enqueue({"kind": "k", "run_at": "2020-01-01T00:00:00Z", "delay_seconds": None}).delay is None


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ({"type": "EXPONENTIAL"}, DEFAULT_POLICY),
        ({"type": "exponential", "base": 8, "max_delay": 10, "jitter": 0}, Exponential(8, 10, 0)),
        ({"type": "linear", "jitter": None}, Linear()),
        ({"type": "Constant", "base": 604_800}, Constant(604_800)),
        ({"type": "constant", "base": 0}, Constant(0)),
    ],
)
def test_policies_by_name(enqueue, asked, meant):
    """The name is taken in any letter case; numbers that are left out or null are the defaults."""
    assert enqueue({"kind": "k", "retry_policy": asked}).retry_policy == meant


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ("exponential", {"retry_policy"}),
        ([], {"retry_policy"}),
        ({}, {"retry_policy.type"}),
        ({"type": "magic", "base": "x", "hue": 1}, {"retry_policy.type", "retry_policy.base", "retry_policy.hue"}),
        ({"type": 1}, {"retry_policy.type"}),
        ({"type": "constant", "max_delay": 1}, {"retry_policy.max_delay"}),
        ({"type": "linear", "base": 301}, {"retry_policy.base"}),
        ({"type": "linear", "max_delay": 604_801}, {"retry_policy.max_delay"}),
        ({"type": "linear", "jitter": 1.1}, {"retry_policy.jitter"}),
        ({"type": "linear", "base": "1", "max_delay": 0.5}, {"retry_policy.base"}),
    ],
)
def test_policies_that_cannot_be(enqueue, faults_of, asked, paths):
    """An unknown name, a foreign or missing field, a number out of bounds, a base above its bound."""
    assert set(faults_of(enqueue, {"kind": "k", "retry_policy": asked})) == paths


def test_the_key_may_come_in_the_header(enqueue, faults_of):
    """Header and field name one key; when both are given they agree."""
    assert enqueue({"kind": "k"}, "a").idempotency_key == "a"
    assert enqueue({"kind": "k", "idempotency_key": None}, "a").idempotency_key == "a"
    assert enqueue({"kind": "k", "idempotency_key": "a"}, "a").idempotency_key == "a"
    assert set(faults_of(enqueue, {"kind": "k", "idempotency_key": "b"}, "a")) == {"idempotency_key"}


def test_a_payload_has_a_size_limit(enqueue, problem_of):
    """One byte more than 1 MiB of text is 413, and the limit is named; other faults do not hide it."""
    longest = b'"' + b"x" * (CONTENT_BYTES_MAX - 2) + b'"'
    assert len(enqueue(b'{"kind":"k","payload":%s}' % longest).payload.text) == CONTENT_BYTES_MAX
    problem = problem_of(enqueue, b'{"kind":1,"payload":%s}' % longest.replace(b"x", b"xx", 1))
    assert problem.code == "too_large"
    assert "payload" in problem.detail
    assert str(CONTENT_BYTES_MAX) in problem.detail


def test_a_payload_has_a_depth_limit(enqueue, faults_of):
    """128 levels are taken, 129 are not; brackets inside strings do not count."""
    assert enqueue(b'{"kind":"k","payload":%s}' % (b"[" * 128 + b"]" * 128)).payload is not None
    faults = faults_of(enqueue, b'{"kind":"k","payload":%s}' % (b"[" * 129 + b"]" * 129))
    assert faults == {"payload": "is nested deeper than 128 levels"}
    assert enqueue({"kind": "k", "payload": "[{" * 1000}).payload is not None
