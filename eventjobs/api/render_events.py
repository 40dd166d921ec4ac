"""Events and the log's head as the wire shows them.

An event's data has the event's own fields. Times are RFC 3339 text, durations `..._seconds`, contents their size
and digest.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import orjson

from eventjobs.api.render import Document, policy_text
from eventjobs.api.view import Head
from eventjobs.api.wire_time import seconds, time_text
from eventjobs.domain.content import ContentDigest
from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.value import field_names

Show = Callable[[object], object]


def _digest(digest: ContentDigest) -> Document:
    return {"size": digest.size, "sha256": digest.sha256}


_SHOWN: dict[str, tuple[str, Show]] = {
    "run_at": ("run_at", time_text),
    "asked_run_at": ("asked_run_at", time_text),
    "expires_at": ("expires_at", time_text),
    "asked_delay": ("asked_delay_seconds", seconds),
    "duration": ("duration_seconds", seconds),
    "payload": ("payload", _digest),
    "result": ("result", _digest),
    "error": ("error", _digest),
    "retry_policy": ("retry_policy", policy_text),
}
"""Fields that are not shown as they are: their name on the wire, and how their values look there."""


def _as_it_is(value: object) -> object:
    return value


_FIELDS: dict[type, list[tuple[str, str, Show]]] = {
    event: [(name, *_SHOWN.get(name, (name, _as_it_is))) for name in field_names(event)]
    for event in EVENT_TYPES.values()
}


def event_text(record: Record) -> bytes:
    """A record of the log as a JSON text."""
    event, actor = record.event, record.actor
    return orjson.dumps(
        {
            "position": record.position,
            "job_id": record.job_id,
            "version": record.version,
            "type": event.type,
            "format_version": event.format_version,
            "time": time_text(record.time),
            "actor": {"type": actor.type.value, "id": actor.id},
            "data": _data(event),
        }
    )


def head_document(head: Head) -> Document:
    """The log's size and, in base64 as in a checkpoint, the root hash over it."""
    return {"size": head.size, "root": base64.b64encode(head.root).decode()}


def _data(event: object) -> Document:
    shown = {}
    for field, wire_name, show in _FIELDS[type(event)]:
        value = getattr(event, field)
        shown[wire_name] = None if value is None else show(value)
    return shown
