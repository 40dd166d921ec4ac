"""Why a job is not running, as far as the log knows: without a coordinator nobody asks for jobs."""

from __future__ import annotations

import orjson

from eventjobs.api.render import Document, Spliced, lapse_text
from eventjobs.api.render_events import event_text
from eventjobs.api.render_why import own_reason, why_document
from eventjobs.domain.job import Job
from eventjobs.store.contract import Corrupt
from eventjobs.tools.replay.fold import job_at
from eventjobs.tools.source import Source

DUE, RETIRED = "due", "retired"
"""Reasons that only a log gives: the job could be leased, and it has left the live store."""


def why(source: Source, job_id: str, now: int) -> Document | None:
    """What GET /jobs/ID/why says, of the job at the end of a log, but for who asks and what is before it. `retired` is
    the event by which it left the live store. None when there is no such job; raises Corrupt, StoreError."""
    head = source.head()
    try:
        return _why(source, job_id, now)
    except Corrupt:  # or only an error that was erased since the log was read, as a later record says
        if source.follow() == head:
            raise
        return _why(source, job_id, now)


def _why(source: Source, job_id: str, now: int) -> Document | None:
    found = job_at(source, job_id, source.head().size)
    if found is None:
        return None
    job = found.job
    reason = RETIRED if found.retired is not None else own_reason(job, now) or DUE
    document = why_document(job, reason, now, _error(source, job), found.ended, found.erasures)
    retired = None if found.retired is None else orjson.Fragment(event_text(found.retired))
    return document | {"ahead": None, "asked": None, "retired": retired}


def _error(source: Source, job: Job) -> Spliced:
    if job.lapse is not None:
        return lapse_text(job.lapse)
    return None if job.error is None else orjson.Fragment(source.content(job.error))
