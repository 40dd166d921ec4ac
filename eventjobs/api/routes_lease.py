"""POST /lease."""

from __future__ import annotations

from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.body import members_of
from eventjobs.api.edge import client_has_gone
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR, EDGE
from eventjobs.api.lease_request import read_lease
from eventjobs.api.query import Query
from eventjobs.api.render import stored_jobs


async def lease(request: web.Request) -> web.Response:
    """Give jobs to a worker, waiting for one if it asked to. Nothing is leased for a worker that has hung up."""
    faults = Faults()
    Query(request, faults).end()
    body = await members_of(request, faults)
    asked = read_lease(body, request.app[EDGE].now())
    faults.refuse_if_any()
    coordinator = request.app[COORDINATOR]
    jobs = await coordinator.lease(
        asked.command,
        asked.queues,
        asked.kinds,
        asked.max_jobs,
        wait=asked.wait,
        still_wanted=lambda: not client_has_gone(request),
    )
    return answer({"jobs": await coordinator.look(lambda view: stored_jobs(view, jobs))})
