"""Looking at jobs: one, its history, and the two lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import orjson
from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.cursors import cursor_of, cursor_text
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.keys import COORDINATOR
from eventjobs.api.past import past_job
from eventjobs.api.points import read_point
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.query import Query
from eventjobs.api.render import Document, stored_job
from eventjobs.api.render_events import event_text
from eventjobs.api.routes_settle import canonical_id, no_such_job
from eventjobs.api.values import POSITION, digits, name, one_of
from eventjobs.api.view import View
from eventjobs.domain.job import State
from eventjobs.domain.limits import ANSWER_BYTES_MAX, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX
from eventjobs.projections import dead_list, history, listing

LIMIT = digits(1, LIST_LIMIT_MAX)
HISTORY_CHUNK = 500
"""Records read at once; between two chunks other requests get their turn."""
ROOM_BESIDE_ITEMS = 1_024
"""Bytes of an answer that are no items: brackets, names, a cursor."""

Page = Callable[[View, int | None, int], list[tuple[int, str]]]
"""(view, below, limit) -> (enqueue position, job id), newest first."""


async def get_job(request: web.Request) -> web.Response:
    """One job as it stands, or as it stood at a point of the past."""
    faults = Faults()
    query = Query(request, faults)
    wanted = read_point(query)
    query.end()
    faults.refuse_if_any()
    job_id = canonical_id(request.match_info["id"])
    if wanted is not None:
        return answer(await past_job(request.app[COORDINATOR], job_id, wanted))
    return answer(await request.app[COORDINATOR].look(lambda view: _one(view, job_id)))


def _one(view: View, job_id: str | None) -> Document:
    job = None if job_id is None else view.job(job_id)
    if job is None:
        raise Refused(of_rejection(no_such_job()))
    return stored_job(view, job)


async def get_history(request: web.Request) -> web.Response:
    """The events of one job, in order: all of them, or those after a version, as far as one answer carries them."""
    faults = Faults()
    query = Query(request, faults)
    after = query.read("after", POSITION, 0)
    limit = query.read("limit", LIMIT)
    query.end()
    faults.refuse_if_any()
    job_id = canonical_id(request.match_info["id"])
    coordinator = request.app[COORDINATOR]
    events, size = [], ROOM_BESIDE_ITEMS
    while True:
        wanted = HISTORY_CHUNK if limit is None else min(HISTORY_CHUNK, limit - len(events))
        chunk = await coordinator.look(partial(_chunk, job_id=job_id, after=after + len(events), wanted=wanted))
        for event in chunk:
            size += len(event) + 1
            if events and size > ANSWER_BYTES_MAX:
                return _events(events)
            events.append(event)
        if len(chunk) < HISTORY_CHUNK:
            return _events(events)
        await asyncio.sleep(0)


def _chunk(view: View, job_id: str | None, after: int, wanted: int) -> list[bytes]:
    """Up to `wanted` events of the job beyond a version of it."""
    if job_id is None or view.job(job_id) is None:
        raise Refused(of_rejection(no_such_job()))
    return [event_text(view.record(position)) for position in history.positions(view, job_id, after, wanted)]


def _events(events: list[bytes]) -> web.Response:
    return answer({"events": [orjson.Fragment(event) for event in events]})


async def list_jobs(request: web.Request) -> web.Response:
    """Jobs, newest first."""
    faults = Faults()
    query = Query(request, faults)
    state, kind, queue = query.read("state", one_of(State)), query.read("kind", name), query.read("queue", name)

    def page(view: View, below: int | None, limit: int) -> list[tuple[int, str]]:
        return listing.page(view, state=state, kind=kind, queue=queue, below=below, limit=limit)

    return await _list("jobs", request, query, faults, page)


async def list_dead(request: web.Request) -> web.Response:
    """Dead jobs, newest first."""
    faults = Faults()
    query = Query(request, faults)
    query.read("state", _dead)
    kind, queue = query.read("kind", name), query.read("queue", name)

    def page(view: View, below: int | None, limit: int) -> list[tuple[int, str]]:
        return dead_list.page(view, kind=kind, queue=queue, below=below, limit=limit)

    return await _list("dead", request, query, faults, page)


def _dead(value: object) -> State:
    if value == State.DEAD:
        return State.DEAD
    raise Unfit("can only be dead in this list")


async def _list(list_name: str, request: web.Request, query: Query, faults: Faults, page: Page) -> web.Response:
    """The page a request asks for, and the cursor for the next one."""
    limit = query.read("limit", LIMIT, LIST_LIMIT_DEFAULT)
    below = query.read("cursor", cursor_of(list_name))
    query.end()
    faults.refuse_if_any()

    def look(view: View) -> tuple[list[tuple[int, str]], list[orjson.Fragment]]:
        found = page(view, below, limit + 1)
        return found, _as_fit(view, found[:limit])

    found, jobs = await request.app[COORDINATOR].look(look)
    cursor = cursor_text(list_name, found[len(jobs) - 1][0]) if len(jobs) < len(found) else None
    return answer({"jobs": jobs, "next_cursor": cursor})


def _as_fit(view: View, found: list[tuple[int, str]]) -> list[orjson.Fragment]:
    """The jobs as JSON, as many as an answer carries, but at least the first."""
    jobs, size = [], ROOM_BESIDE_ITEMS
    for _, job_id in found:
        document: Document = stored_job(view, view.job(job_id))
        job = orjson.dumps(document)
        size += len(job) + 1
        if jobs and size > ANSWER_BYTES_MAX:
            break
        jobs.append(orjson.Fragment(job))
    return jobs
