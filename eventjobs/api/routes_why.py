"""GET /jobs/{id}/why: why a job is not running, as a document with a stable reason."""

from __future__ import annotations

from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.query import Query
from eventjobs.api.render import Document, lapse_text, spliced
from eventjobs.api.render_why import ENDS, own_reason, why_document
from eventjobs.api.routes_settle import canonical_id, no_such_job
from eventjobs.api.view import View
from eventjobs.api.wire_time import time_text
from eventjobs.coordinator.askers import Asked
from eventjobs.domain.events import ContentsErased, Record
from eventjobs.domain.job import Job
from eventjobs.projections import history

AHEAD_MAX = 10_000
"""Jobs ahead of one that waits are counted up to so many."""
ASKED_SHOWN_MAX = 20
"""Requests for jobs that are shown, the latest first; of all, the number is."""


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
        return why(view, job, now, lately, since, coordinator.leases_spared_until)

    return answer(await coordinator.look(look))


def why(view: View, job: Job, now: int, lately: list[Asked], since: int, spared_until: int) -> Document:
    """Why the job is not running, as it seems to a coordinator that was asked for jobs `lately`: all who asked since a
    time, and that ends no lease before another."""
    lane = (job.spec.queue, job.spec.kind)
    takers = [asked for asked in lately if asked.wants(lane)]
    reason, ahead = own_reason(job, now), None
    present = [asked for asked in takers if asked.present(now)]
    shown = present or [asked for asked in takers if asked.full(now)]
    if reason is None and not shown:
        reason = "nobody_asks"
    elif reason is None:
        ahead = view.ahead_of(job, lambda other: any(asked.wants(other) for asked in shown), now, AHEAD_MAX + 1)
        reason = "workers_full" if not present else "behind_others" if ahead else "next"
    error = spliced(view.content, job.error) if job.lapse is None else lapse_text(job.lapse)
    return why_document(job, reason, now, error, *_ending(view, job), spared_until) | {
        "ahead": None if ahead is None else _ahead(ahead),
        "asked": _asked(shown or takers or lately, bool(takers), since, now),
    }


def _ending(view: View, job: Job) -> tuple[Record | None, list[Record]]:
    """The record that ended the job, and those since that erased contents of it, in order."""
    erasures: list[Record] = []
    for position in history.latest(view, job.id) if job.finished_at is not None else ():
        record = view.record(position)
        if isinstance(record.event, ENDS):
            return record, erasures[::-1]
        if isinstance(record.event, ContentsErased):
            erasures.append(record)
    return None, []


def _ahead(counts: dict[tuple[str, str], int]) -> Document:
    total = sum(counts.values())
    lanes = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {
        "jobs": min(total, AHEAD_MAX),
        "more": total > AHEAD_MAX,
        "lanes": [{"queue": queue, "kind": kind, "jobs": min(count, AHEAD_MAX)} for (queue, kind), count in lanes],
    }


def _asked(shown: list[Asked], for_this: bool, since: int, now: int) -> Document:
    """Who asked for jobs like this one since; if nobody did, who asked for others."""
    return {
        "since": time_text(since),
        "for_this": for_this,
        "requests": len(shown),
        "latest": [
            {
                "worker": each.worker,
                "queues": each.queues,
                "kinds": each.kinds,
                "time": time_text(each.time),
                "full": each.full(now),
            }
            for each in shown[:ASKED_SHOWN_MAX]
        ],
    }
