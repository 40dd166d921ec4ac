"""Answers as people see them."""

from __future__ import annotations

import msgspec

from eventjobs.client.answers import Event, Job

JOB = b"""{"id": "j", "kind": "k", "queue": "q", "priority": 0, "payload": {"n": 1.0}, "state": "succeeded",
"attempts": 1, "max_attempts": 5, "retry_policy": {}, "run_at": "2030-01-01T00:00:00Z", "lease_owner": null,
"lease_expires_at": null, "lease_token": 1, "result": "fine", "error": null, "idempotency_key": null,
"created_at": "2030-01-01T00:00:00Z", "updated_at": "2030-01-01T00:00:00Z", "finished_at": null}"""
EVENT = b"""{"position": 1, "job_id": "j", "version": 1, "type": "job_canceled", "format_version": 1,
"time": "2030-01-01T00:00:00Z", "actor": {"type": "operator", "id": "ada"}, "data": {"reason": "why"}}"""


def test_a_printed_job_shows_payload_and_result():
    """As JSON text, in the names of the attributes."""
    shown = repr(msgspec.json.decode(JOB, type=Job))
    assert shown.startswith("Job(id='j', kind='k', ")
    assert 'payload={"n": 1.0}, ' in shown
    assert 'result="fine", ' in shown
    assert "Raw" not in shown


def test_a_printed_event_shows_its_data():
    """As JSON text."""
    shown = repr(msgspec.json.decode(EVENT, type=Event))
    assert shown.endswith('data={"reason": "why"})')


def test_a_long_payload_is_cut_where_it_is_printed():
    """A screen is no place for a megabyte."""
    job = msgspec.json.decode(JOB.replace(b'"fine"', b'"' + b"x" * 5_000 + b'"'), type=Job)
    assert len(repr(job)) < 1_500
    assert len(job.result) == 5_000
