"""Replayed jobs for readers and scripts. Contents are told by their sizes: they lie beside the log."""

from __future__ import annotations

import orjson

from eventjobs.api import render
from eventjobs.api.render import Document
from eventjobs.api.render_events import event_text
from eventjobs.cli import events, output
from eventjobs.domain.job import ContentRef, Job
from eventjobs.tools.replay.fold import Changed
from eventjobs.tools.verify.report import counted


def job_document(job: Job) -> Document:
    """The job as HTTP shows it, with {size} in place of each content."""
    error = _size(job.error) if job.lapse is None else render.lapse_text(job.lapse)
    return render.job_document(job, _size(job.spec.payload), _size(job.result), error)


def _size(ref: ContentRef | None) -> Document | None:
    return None if ref is None else {"size": ref.size}


def short(value: object) -> str:
    """A value of such a document in a line."""
    if isinstance(value, orjson.Fragment):
        return orjson.dumps(value).decode()
    if isinstance(value, dict):
        return f"{value['size']:,} bytes"
    return str(value)


def change_document(changed: Changed) -> Document:
    """A job that changed, for scripts: how it stood before (null: it was not there) and after, and its last event."""
    after = changed.after
    return {
        "id": after.id,
        "kind": after.spec.kind,
        "queue": after.spec.queue,
        "before": None if changed.before is None else _standing(changed.before),
        "after": _standing(after),
        "events": changed.records,
        "last": orjson.Fragment(event_text(changed.last)),
    }


def _standing(job: Job) -> Document:
    return {"state": job.state.value, "attempts": job.attempts, "lease_token": job.lease_token}


def change_line(changed: Changed) -> str:
    """The same in a line."""
    after, before = changed.after, changed.before
    parts = [f"{after.id} {after.spec.kind} in {after.spec.queue}:"]
    old = {} if before is None else _standing(before)
    for name, value in _standing(after).items():
        was = old.get(name)
        parts.append(f"{name} {value}" if was in (None, value) else f"{name} {was} -> {value}")
    last = orjson.loads(event_text(changed.last))
    story = output.text(f"{last['type']} by {events.story(last).plain}").plain
    head = "new, " if before is None else ""
    return f"{parts[0]} {head}{', '.join(parts[1:])}; {counted(changed.records, 'event')}, last {story}"
