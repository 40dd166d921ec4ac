"""What the events of letting go are for a reader: which contents, who, and why."""

from __future__ import annotations

import pytest

from eventjobs.cli import events, histories
from eventjobs.domain.events import EVENT_TYPES

GONE = {"payload_position": 1, "result_position": None, "error_positions": [3, 5]}
TOLD = [
    ("contents_erased", GONE | {"reason": "asked for"}, "erased for good: payload and 2 errors; asked for"),
    ("contents_erased", GONE | {"reason": None}, "erased for good: payload and 2 errors; no reason was given"),
    (
        "job_retired",
        {"payload_position": 1, "result_position": 4, "error_positions": [3], "rule": "dead 3d"},
        "left the live store by the rule: dead 3d; erased with it: payload, result and 1 error",
    ),
    (
        "job_retired",
        {"payload_position": None, "result_position": None, "error_positions": [], "rule": "dead 3d"},
        "left the live store by the rule: dead 3d; erased with it: nothing",
    ),
    (
        "idempotency_key_forgotten",
        {"rule": "keys 30d"},
        "whoever enqueues under its key gets a new job, by the rule: keys 30d",
    ),
]


def event(kind: str, data: dict) -> dict:
    actor = {"type": "coordinator", "id": "retention"}
    return {"type": kind, "version": 1, "time": "2026-01-02T03:04:05.000006Z", "actor": actor, "data": data}


@pytest.mark.parametrize(("kind", "data", "why"), TOLD)
def test_letting_go_is_told_in_a_sentence(kind, data, why):
    """The history names what is gone and the reason or the rule; no position of a content is shown."""
    (told,) = histories.tell([event(kind, data)])
    assert told.why == why
    assert "position" not in events.story(event(kind, data)).plain


def test_every_event_has_its_colour():
    """No type of event was forgotten."""
    assert events.STYLES.keys() == EVENT_TYPES.keys()
