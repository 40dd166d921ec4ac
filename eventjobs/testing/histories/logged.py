"""A history beside the log: every acknowledged effect is there, and nothing that nobody asked for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from eventjobs.testing.histories.operations import Answer, History, Lost, Operation

Event = Mapping[str, Any]

TYPES = {
    "enqueue": {"job_enqueued"},
    "lease": {"job_leased"},
    "renew": {"lease_renewed"},
    "complete": {"job_completed"},
    "fail": {"attempt_failed", "job_died"},
    "release": {"lease_released"},
    "cancel": {"job_canceled"},
    "requeue": {"job_requeued"},
}
"""What each operation can append."""
REPEATABLE = {"complete", "fail", "cancel"}
"""Operations that, asked again, are answered as done and append nothing."""
BY_NOBODY = "lease_expired"
"""What the coordinator does by itself: the event, and the cause of a death."""


def differences(history: History, events: Sequence[Event], tolerance: int = 0) -> list[str]:
    """Everything in which the history and the job's events, in order and with integer times, do not agree.

    Each acknowledged effect must be an event, each effect that cannot be repeated one of its own; each event must
    have been asked for by an operation that was not refused, or be an expiry. `tolerance` is in microseconds.
    """
    found = _gaps(events)
    asked = [event for event in events if not _expiry(event)]
    able = [each for each in history.operations if each.ask.name in TYPES]
    acknowledged = [each for each in able if isinstance(each.outcome, Answer)]
    once = [each for each in acknowledged if not _repeats(each)]
    lost = [each for each in able if isinstance(each.outcome, Lost)]

    def events_of(operation: Operation) -> list[int]:
        return [number for number, event in enumerate(asked) if _can_be(operation, event, tolerance)]

    for operation in acknowledged:
        if not events_of(operation):
            found.append(f"{operation.ask}, answered {operation.outcome}, is not in the log")
    for number in unmatched([events_of(operation) for operation in once]):
        found.append(f"{once[number].ask}, answered {once[number].outcome}, has no event of its own in the log")
    repeated = {number for operation in acknowledged if _repeats(operation) for number in events_of(operation)}
    orphans = [number for number in range(len(asked)) if number not in repeated]
    askers = [events_of(operation) for operation in once + lost]
    options = [[asker for asker, theirs in enumerate(askers) if number in theirs] for number in orphans]
    found += [f"nobody asked for {_told(asked[orphans[number]])}" for number in unmatched(options)]
    return found


def unmatched(options: Sequence[Sequence[Hashable]]) -> list[int]:
    """Who gets nothing when as many as can be are given one of their options each, no option twice."""
    holder: dict[Hashable, int] = {}

    def give(number: int, tried: set[Hashable]) -> bool:
        for option in options[number]:
            if option not in tried:
                tried.add(option)
                if option not in holder or give(holder[option], tried):
                    holder[option] = number
                    return True
        return False

    return [number for number in range(len(options)) if not give(number, set())]


def _gaps(events: Sequence[Event]) -> list[str]:
    found = []
    if [event["version"] for event in events] != list(range(1, len(events) + 1)):
        found.append(f"versions are not gapless: {[event['version'] for event in events]}")
    if any(before["time"] > after["time"] for before, after in pairwise(events)):
        found.append(f"times go back: {[event['time'] for event in events]}")
    return found


def _expiry(event: Event) -> bool:
    return event["type"] == BY_NOBODY or event["data"].get("cause") == BY_NOBODY


def _repeats(operation: Operation) -> bool:
    """Whether an operation that was answered as done may have appended nothing."""
    match operation.ask.name:
        case "enqueue":
            return not operation.outcome.created
        case "lease":
            return operation.ask.request_id is not None
    return operation.ask.name in REPEATABLE


def _can_be(operation: Operation, event: Event, tolerance: int) -> bool:
    """Whether the event can be the operation's."""
    ask, data = operation.ask, event["data"]
    if event["type"] not in TYPES[ask.name] or (ask.token is not None and data["token"] != ask.token):
        return False
    if ask.worker is not None and data["worker"] != ask.worker:
        return False
    document = operation.outcome.document if isinstance(operation.outcome, Answer) else {}
    if ask.name == "lease" and data["token"] != document.get("lease_token", data["token"]):
        return False
    if ask.name in ("enqueue", "lease") and document and _repeats(operation):
        return True  # the answer shows the job as it stood later
    if "updated_at" in document:
        return event["time"] == document["updated_at"]
    repeated = isinstance(operation.outcome, Answer) and _repeats(operation)
    return repeated or event["time"] >= operation.called - tolerance


def _told(event: Event) -> str:
    token = event["data"].get("token")
    return f"{event['type']}{'' if token is None else f' with token {token}'}, version {event['version']}"
