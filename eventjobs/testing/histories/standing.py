"""How a job stands, as far as it is known from outside, and whether a document shows it so.

What an answer did not tell is known within bounds: a time is a span (first, last) in microseconds, both included,
and becomes exact when a document shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

Span = tuple[int, int]
NEVER = 1 << 62
"""A time after all others."""


class Standing(NamedTuple):
    """One job. `owner`, `expiry`, `lease_seconds` and `grant` (worker and request id) are set while it is running.

    `job` is the enqueue request's number among those of the history. `failed` tells a job that a worker's failure
    brought where it is, `at_once` one whose `run_at` is the time of its last change. `error` is a type and, where it
    is known, a message. `remembered` are the lease requests that were given this job and may be repeated.
    """

    job: int
    max_attempts: int
    created: Span
    updated: Span
    run_at: Span
    at_once: bool
    id: str | None = None
    state: str = "queued"
    attempts: int = 0
    token: int = 0
    owner: str | None = None
    expiry: Span | None = None
    lease_seconds: float | None = None
    grant: tuple[str, str] | None = None
    result: str = "null"
    error: tuple[str, str | None] | None = None
    failed: bool = False
    finished: Span | None = None
    remembered: frozenset[tuple[str, str]] = frozenset()


_PLAIN = (
    ("state", "state"),
    ("attempts", "attempts"),
    ("lease_token", "token"),
    ("lease_owner", "owner"),
    ("max_attempts", "max_attempts"),
)
_TIMES = (
    ("created_at", "created"),
    ("updated_at", "updated"),
    ("run_at", "run_at"),
    ("lease_expires_at", "expiry"),
    ("finished_at", "finished"),
)
AS_SENT = ("kind", "queue", "priority", "payload", "idempotency_key")
"""What a document shows as the enqueue request had it."""


def text_of(value: Any) -> str:
    """A JSON value as a text that equal values share."""
    return json.dumps(value, sort_keys=True)


def seen(standing: Standing, document: Mapping[str, Any], job: Mapping[str, Any]) -> Standing | str:
    """The standing, known as exactly as the document shows it; why not, when it shows something else.

    `job` is the enqueue request it came from. Fields that the document does not have are not looked at.
    """
    for name in AS_SENT:
        if name in document and name in job and document[name] != job[name]:
            return f"{name} was sent as {job[name]!r} and is shown as {document[name]!r}"
    for name, field in _PLAIN:
        expected = getattr(standing, field)
        if name in document and document[name] != expected:
            return f"{name} is {expected!r} and is shown as {document[name]!r}"
    misfit = _contents_misfit(standing, document)
    return _with_times(_with_id(standing, document), document) if misfit is None else misfit


def _contents_misfit(standing: Standing, document: Mapping[str, Any]) -> str | None:
    if "result" in document and text_of(document["result"]) != standing.result:
        return f"result is {standing.result} and is shown as {text_of(document['result'])}"
    if "error" not in document:
        return None
    shown = document["error"]
    if (shown is None) is not (standing.error is None):
        return f"error is {standing.error} and is shown as {shown}"
    if shown is not None:
        error_type, message = standing.error
        if shown["type"] != error_type or message not in (None, shown["message"]):
            return f"error is {error_type}: {message} and is shown as {shown['type']}: {shown['message']}"
    return None


def _with_id(standing: Standing, document: Mapping[str, Any]) -> Standing:
    return standing._replace(id=document["id"]) if standing.id is None and "id" in document else standing


def _with_times(standing: Standing, document: Mapping[str, Any]) -> Standing | str:
    if standing.id is not None and document.get("id", standing.id) != standing.id:
        return f"the job is {standing.id} and is shown as {document['id']}"
    known = {}
    for name, field in _TIMES:
        if name not in document:
            continue
        span, shown = getattr(standing, field), document[name]
        if (span is None) is not (shown is None) or (span is not None and not span[0] <= shown <= span[1]):
            return f"{name} is {told(span)} and is shown as {told(shown)}"
        if span is not None and span[0] != span[1]:
            known[field] = (shown, shown)
    both = "run_at" in document and "updated_at" in document
    if standing.at_once and both and document["run_at"] != document["updated_at"]:
        return "run_at is the time of the last change, and another is shown"
    return standing._replace(**known) if known else standing


def told(time: Span | int | None) -> str:
    """A time or span in words."""
    if time is None:
        return "nothing"
    first, last = (time, time) if isinstance(time, int) else time
    if first == last:
        return str(first)
    return f"after {first}" if last >= NEVER else f"between {first} and {last}"
