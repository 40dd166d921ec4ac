"""A worker's or operator's word about a job becomes a command, or every fault of it is told."""

from __future__ import annotations

import json

import orjson
import pytest

from eventjobs.api.error_document import cut
from eventjobs.api.settle_request import (
    HOLDER,
    Asked,
    read_cancel,
    read_complete,
    read_fail,
    read_release,
    read_renew,
    read_requeue,
)
from eventjobs.domain.commands import Cancel, Complete, Fail, Release, Renew, Requeue
from eventjobs.domain.content import Content
from eventjobs.domain.limits import ERROR_TEXT_BYTES_MAX
from eventjobs.testing.builders import NOW, seconds

SALT = bytes(16)
WITH_TOKEN = (read_renew, read_complete, read_fail, read_release)


@pytest.fixture
def settle(edge, reading, job_id):
    """The command for a body."""
    asked = Asked(job_id, NOW, HOLDER, edge)
    return lambda read, body: reading(lambda item: read(item, asked), body)


def test_bodies_become_commands(settle, job_id):
    """Each sort of request has its command."""
    common = {"job_id": job_id, "now": NOW, "actor": HOLDER}
    assert settle(read_renew, {"token": 7}) == Renew(token=7, duration=None, **common)
    assert settle(read_renew, {"token": 7, "lease_seconds": 0.1}) == Renew(token=7, duration=seconds(0.1), **common)
    assert settle(read_complete, {"token": 1}) == Complete(token=1, result=None, **common)
    assert settle(read_complete, b'{"token":1,"result": 1.0 }') == Complete(
        token=1, result=Content(b"1.0", SALT), **common
    )
    assert settle(read_release, {"token": 0}) == Release(token=0, **common)
    assert settle(read_cancel, {}) == Cancel(reason=None, **common)
    assert settle(read_cancel, {"reason": "tab\tand\nline é"}) == Cancel(reason="tab\tand\nline é", **common)
    assert settle(read_requeue, {}) == Requeue(**common)
    assert settle(read_fail, {"token": 2, "error": "boom"}) == Fail(
        token=2,
        error=Content(b'{"type":"Error","message":"boom"}', SALT),
        retry=True,
        delay=None,
        roll=0.25,
        **common,
    )


@pytest.mark.parametrize("read", WITH_TOKEN)
@pytest.mark.parametrize("literal", ['"1"', "1.0", "1e0", "true", "null", "[1]", "-1", "{}", "-" + "9" * 5000])
def test_a_token_is_an_integer_from_zero(settle, faults_of, read, literal):
    """Nothing else is taken for one."""
    faults = faults_of(settle, read, b'{"error":"e","token":%s}' % literal.encode())
    assert "token" in faults


@pytest.mark.parametrize("read", WITH_TOKEN)
def test_an_integer_no_lease_ever_had_is_well_formed(settle, read):
    """However large: that it is stale is for the job to say."""
    body = b'{"token":%s}' if read is not read_fail else b'{"error":"e","token":%s}'
    assert settle(read, body % b"123456789012345678901234567890").token == 123456789012345678901234567890
    assert settle(read, body % (b"9" * 5000)).token > 2**63


def test_every_fault_of_a_failure_is_told(settle, faults_of):
    """Wrong and foreign fields are named at their paths, those inside the error too."""
    body = {
        "token": -1,
        "error": {"message": 5, "traceback": [], "x": 1},
        "retry": "no",
        "retry_in_seconds": 604_801,
        "y": 0,
    }
    assert set(faults_of(settle, read_fail, body)) == {
        "token", "error.type", "error.message", "error.traceback", "error.x", "retry", "retry_in_seconds", "y",
    }  # fmt: skip
    assert set(faults_of(settle, read_fail, {})) == {"token", "error"}
    for error in (5, [], True):
        assert set(faults_of(settle, read_fail, {"token": 1, "error": error})) == {"error"}


def test_an_error_has_three_texts(settle):
    """type, message and traceback; a missing or null traceback is left out."""
    error = {"type": "ValueError", "message": "no\u0000 é", "traceback": "at line 1"}
    assert orjson.loads(settle(read_fail, {"token": 1, "error": error}).error.text) == error
    short = {"type": "", "message": "", "traceback": None}
    assert orjson.loads(settle(read_fail, {"token": 1, "error": short}).error.text) == {"type": "", "message": ""}


def test_fields_of_other_requests_are_unknown(settle, faults_of):
    """Each request takes its own fields alone."""
    assert set(faults_of(settle, read_release, {"token": 1, "result": 1})) == {"result"}
    assert set(faults_of(settle, read_cancel, {"token": 1})) == {"token"}
    assert set(faults_of(settle, read_requeue, {"reason": "x"})) == {"reason"}
    assert set(faults_of(settle, read_renew, {"token": 1, "lease_seconds": 0.09})) == {"lease_seconds"}
    assert set(faults_of(settle, read_cancel, {"reason": "\x00"})) == {"reason"}
    assert set(faults_of(settle, read_cancel, {"reason": "x" * 1001})) == {"reason"}


def test_a_long_text_is_cut_and_says_so(settle):
    """Each text of an error is held to 64 KiB of UTF-8, note included, without breaking a character."""
    longest = "x" * ERROR_TEXT_BYTES_MAX
    assert cut(longest) == longest
    for text in (longest + "x", "é" * ERROR_TEXT_BYTES_MAX, "😀" * ERROR_TEXT_BYTES_MAX):
        short = cut(text)
        assert ERROR_TEXT_BYTES_MAX - 4 <= len(short.encode()) <= ERROR_TEXT_BYTES_MAX
        kept, _, note = short.partition(" [cut: ")
        assert text.startswith(kept)
        assert note == f"the text had {len(text.encode())} bytes, the limit is {ERROR_TEXT_BYTES_MAX}]"
    error = {"type": longest + "t", "message": longest + "m", "traceback": longest + "b"}
    stored = json.loads(settle(read_fail, {"token": 1, "error": error}).error.text)
    assert all(len(text) == ERROR_TEXT_BYTES_MAX for text in stored.values())
    assert all("[cut: " in text for text in stored.values())
