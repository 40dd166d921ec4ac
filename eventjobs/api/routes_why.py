"""GET /jobs/{id}/why: why a job is not running, as a document with a stable reason."""

from __future__ import annotations

import orjson
from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.query import Query
from eventjobs.api.render import Document, lapse_text, spliced
from eventjobs.api.render_events import event_text
from eventjobs.api.routes_settle import canonical_id, no_such_job
from eventjobs.api.view import View
from eventjobs.api.wire_time import time_text
from eventjobs.coordinator.askers import Asked
from eventjobs.domain.events import ContentsErased, JobCanceled, JobCompleted, JobDied
from eventjobs.domain.job import Job, State
from eventjobs.projections import history

AHEAD_MAX = 10_000
"""Jobs ahead of one that waits are counted up to so many."""
ASKED_SHOWN_MAX = 20
"""Requests for jobs that are shown, the latest first; of all, the number is."""
ENDS = (JobCompleted, JobDied, JobCanceled)
REASONS_OF_STATES = {
    State.RUNNING: "running",
    State.SUCCEEDED: "succeeded",
    State.DEAD: "dead",
    State.CANCELED: "canceled",
}


async def get_why(request: web.Request) -> web.Response:
    """What a job waits for, or why it does not wait any more."""
    faults = Faults()
    Query(request, faults).end()
    faults.refuse_if_any()
    job_id = canonical_id(request.match_info["id"])
    coordinator = request.app[COORDINATOR]
    now, lately, since = coordinator.clock.now(), coordinator.askers.lately(), coordinator.askers.since

    def look(view: View) -> Document:
        job = None if job_id is None else view.job(job_id)
        if job is None:
            raise Refused(of_rejection(no_such_job()))
        return why(view, job, now, lately, since)

    return answer(await coordinator.look(look))


def why(view: View, job: Job, now: int, lately: list[Asked], since: int) -> Document:
    """Why the job is not running, as it seems to a coordinator that was asked for jobs `lately`: all who asked since a
    time."""
    lease = job.lease
    lane = (job.spec.queue, job.spec.kind)
    takers = [asked for asked in lately if asked.wants(lane)]
    ahead = None
    if job.state in REASONS_OF_STATES:
        reason = REASONS_OF_STATES[job.state]
    elif job.run_at > now:
        reason = "scheduled" if job.state is State.QUEUED else "waiting_for_retry"
    elif not takers:
        reason = "nobody_asks"
    else:
        ahead = view.ahead_of(job, lambda other: any(asked.wants(other) for asked in takers), now, AHEAD_MAX + 1)
        reason = "behind_others" if ahead else "next"
    error = spliced(view, job.error) if job.lapse is None else lapse_text(job.lapse)
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
        "lease_expires_at": None if lease is None else time_text(lease.expires_at),
        "lease_token": job.lease_token,
        "error": error,
        "finished_at": None if job.finished_at is None else time_text(job.finished_at),
        "death_cause": None if job.death_cause is None else job.death_cause.value,
        "erased": job.erased,
        **_ending(view, job),
        "ahead": None if ahead is None else _ahead(ahead),
        "asked": _asked(takers if takers else lately, bool(takers), since),
    }


def _ending(view: View, job: Job) -> Document:
    """The event that ended the job, and those since that erased contents of it, in order."""
    ended, erasures = None, []
    for position in history.latest(view, job.id) if job.finished_at is not None else ():
        record = view.record(position)
        if isinstance(record.event, ContentsErased):
            erasures.append(orjson.Fragment(event_text(record)))
        elif isinstance(record.event, ENDS):
            ended = orjson.Fragment(event_text(record))
            break
    return {"ended": ended, "erasures": erasures[::-1]}


def _ahead(counts: dict[tuple[str, str], int]) -> Document:
    total = sum(counts.values())
    lanes = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {
        "jobs": min(total, AHEAD_MAX),
        "more": total > AHEAD_MAX,
        "lanes": [{"queue": queue, "kind": kind, "jobs": min(count, AHEAD_MAX)} for (queue, kind), count in lanes],
    }


def _asked(shown: list[Asked], for_this: bool, since: int) -> Document:
    """Who asked for jobs like this one since; if nobody did, who asked for others."""
    return {
        "since": time_text(since),
        "for_this": for_this,
        "requests": len(shown),
        "latest": [
            {"worker": each.worker, "queues": each.queues, "kinds": each.kinds, "time": time_text(each.time)}
            for each in shown[:ASKED_SHOWN_MAX]
        ],
    }
