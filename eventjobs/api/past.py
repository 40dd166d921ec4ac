"""The past: one job, or the statistics, as they stood at a point of the log.

A fold may be long. It is made in short looks at the store; between two of them other requests get their turn.
"""

from __future__ import annotations

import asyncio
from functools import partial

from attrs import Factory, define, frozen

from eventjobs.api.points import Point, position_at
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.render import Document, stored_job
from eventjobs.api.render_stats import stats_document
from eventjobs.api.routes_settle import no_such_job
from eventjobs.api.view import View
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.events import ContentsErased, erased_positions
from eventjobs.domain.evolve import evolve, without_contents
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


@define
class _History:
    """How far a job's history was read: the job as it stood at the point, and the contents that it lost since."""

    job: Job | None = None
    version: int = 0
    gone: set[int] = Factory(set)


async def past_job(coordinator: Coordinator, job_id: str | None, wanted: Point) -> Document:
    """A job as it stood at the point: the fold of its own history. Contents that were erased since are not there, and
    named so. Raises Refused when there was no such job."""
    now = coordinator.clock.now()
    position = await coordinator.look(lambda view: position_at(view, wanted, now))
    found, so_far = None, _History()
    while found is None:
        await asyncio.sleep(0)
        found = await coordinator.look(partial(_further, job_id=job_id, so_far=so_far, position=position))
    return found


def _further(view: View, job_id: str | None, so_far: _History, position: int) -> Document | None:
    """Read a slice more of the history, to its end: then the document, of the same view of the store."""
    places = [] if job_id is None else history.positions(view, job_id, so_far.version, SLICE_RECORDS)
    for place in places:
        record = view.record(place)
        if place <= position:
            so_far.job = evolve(so_far.job, record)
        elif isinstance(record.event, ContentsErased):
            so_far.gone.update(erased_positions(record.event))
    so_far.version += len(places)
    if len(places) == SLICE_RECORDS:
        return None
    if so_far.job is None or view.job(job_id) is None:
        raise Refused(of_rejection(no_such_job()))
    return stored_job(view, without_contents(so_far.job, so_far.gone))


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
