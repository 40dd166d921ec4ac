"""The past: one job, or the statistics, as they stood at a point of the log.

A fold may be long. It is made in short looks at the store; between two of them other requests get their turn.
"""

from __future__ import annotations

import asyncio
from functools import partial

from attrs import frozen

from eventjobs.api.points import Point, position_at
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.render import Document, stored_job
from eventjobs.api.render_stats import stats_document
from eventjobs.api.routes_settle import no_such_job
from eventjobs.api.view import View
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.projections import history, stats
from eventjobs.projections.stats_past import Past

SLICE_RECORDS = 200
"""Records folded in one look: some milliseconds."""


@frozen
class PastHead:
    """The log as it was when it had so many records."""

    size: int
    root: bytes


async def past_job(coordinator: Coordinator, job_id: str | None, wanted: Point) -> Document:
    """A job as it stood at the point: the fold of its own history. Raises Refused when there was no such job."""
    now = coordinator.clock.now()
    position = await coordinator.look(lambda view: position_at(view, wanted, now))
    job, more = None, job_id is not None
    while more:
        await asyncio.sleep(0)
        job, more = await coordinator.look(partial(_further, job_id=job_id, job=job, position=position))
    if job is None:
        raise Refused(of_rejection(no_such_job()))
    await asyncio.sleep(0)
    return await coordinator.look(lambda view: stored_job(view, job))


def _further(view: View, job_id: str, job: Job | None, position: int) -> tuple[Job | None, bool]:
    """The job after a slice more of its history, and whether there may be more of it up to the position."""
    positions = history.positions(view, job_id, 0 if job is None else job.version, SLICE_RECORDS)
    for place in positions:
        if place > position:
            return job, False
        job = evolve(job, view.record(place))
    return job, len(positions) == SLICE_RECORDS


async def past_stats(coordinator: Coordinator, wanted: Point) -> Document:
    """The statistics as they stood at the point, from the last snapshot before it."""
    now = coordinator.clock.now()

    def begin(view: View) -> tuple[int, Past]:
        position = position_at(view, wanted, now)
        return position, stats.past(view, position)

    position, past = await coordinator.look(begin)

    def advance(view: View) -> None:
        stats.advance(past, view, view.records(past.position, min(SLICE_RECORDS, position - past.position)))

    while past.position < position:
        await asyncio.sleep(0)
        await coordinator.look(advance)
    await asyncio.sleep(0)
    root = await coordinator.look(lambda view: view.root(position))
    return stats_document(stats.read(past), PastHead(position, root))
