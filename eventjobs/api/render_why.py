"""Why a job is not running, as a document: what its own records tell of it."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from eventjobs.api.render import Document, Spliced
from eventjobs.api.render_events import event_text
from eventjobs.api.wire_time import time_text
from eventjobs.domain.events import JobCanceled, JobCompleted, JobDied, Record
from eventjobs.domain.job import Job, State

ENDS = (JobCompleted, JobDied, JobCanceled)
"""The events that end a job."""
REASONS_OF_STATES = {
    State.SUCCEEDED: "succeeded",
    State.DEAD: "dead",
    State.CANCELED: "canceled",
}


def own_reason(job: Job, now: int) -> str | None:
    """The reason that lies in the job itself; None for one that could be leased now."""
    if job.state is State.RUNNING:
        return "running" if now < job.lease.expires_at else "expiring"
    if job.state in REASONS_OF_STATES:
        return REASONS_OF_STATES[job.state]
    if job.run_at > now:
        return "scheduled" if job.state is State.QUEUED else "waiting_for_retry"
    return None


def why_document(
    job: Job,
    reason: str,
    now: int,
    error: Spliced,
    ended: Record | None,
    erasures: Iterable[Record],
    spared_until: int = 0,
) -> Document:
    """The reason with what is known of the job: its error, the record that ended it, those that erased contents of
    it since, and until when its lease is let be although its time is over."""
    lease = job.lease
    return {
        "id": job.id,
        "kind": job.spec.kind,
        "queue": job.spec.queue,
        "state": job.state.value,
        "reason": reason,
        "time": time_text(now),
        "run_at": time_text(job.run_at),
        "attempts": job.attempts,
        "max_attempts": job.spec.max_attempts,
        "lease_owner": None if lease is None else lease.worker,
        "leased_at": None if lease is None else time_text(lease.leased_at),
        "lease_expires_at": None if lease is None else time_text(lease.expires_at),
        "spared_until": time_text(spared_until) if reason == "expiring" and spared_until > now else None,
        "lease_token": job.lease_token,
        "error": error,
        "finished_at": None if job.finished_at is None else time_text(job.finished_at),
        "death_cause": None if job.death_cause is None else job.death_cause.value,
        "erased": job.erased,
        "ended": None if ended is None else orjson.Fragment(event_text(ended)),
        "erasures": [orjson.Fragment(event_text(record)) for record in erasures],
    }
