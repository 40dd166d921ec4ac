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
    if isinstance(value, tuple):
        return ", ".join(value)
    return str(value)


def change_document(changed: Changed) -> Document:
    """A job that changed, for scripts: how it stood before and after, null when it was not there (yet, or
    any more), and its last event."""
    after = changed.after
    return {
        "id": after.id,
        "kind": after.spec.kind,
        "queue": after.spec.queue,
        "before": _standing(changed.before),
        "after": _standing(after),
        "events": changed.records,
        "last": orjson.Fragment(event_text(changed.last)),
    }


def _standing(job: Job | None) -> Document | None:
    if job is None or job.retired:
        return None
    return {"state": job.state.value, "attempts": job.attempts, "lease_token": job.lease_token}


def change_line(changed: Changed) -> str:
    """The same in a line."""
    after = changed.after
    last = orjson.loads(event_text(changed.last))
    story = output.text(f"{last['type']} by {events.story(last).plain}").plain
    return (
        f"{after.id} {after.spec.kind} in {after.spec.queue}: {_difference(changed)}; "
        f"{counted(changed.records, 'event')}, last {story}"
    )


def _difference(changed: Changed) -> str:
    old, new = _standing(changed.before), _standing(changed.after)
    come = "new, " if changed.before is None else ""
    if new is None:
        return f"{come}retired" + ("" if old is None else f", before: {_values(old)}")
    return come + ", ".join(
        f"{name} {value}" if old is None or old[name] == value else f"{name} {old[name]} -> {value}"
        for name, value in new.items()
    )


def _values(standing: Document) -> str:
    return ", ".join(f"{name} {value}" for name, value in standing.items())
