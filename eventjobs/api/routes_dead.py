"""POST /dead/requeue: bring dead jobs back in bulk, oldest first."""

from __future__ import annotations

from functools import partial

from aiohttp import web
from attrs import frozen

from eventjobs.api.answers import answer
from eventjobs.api.body import members_of
from eventjobs.api.edge import actor_of
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR, EDGE
from eventjobs.api.members import Members
from eventjobs.api.query import Query
from eventjobs.api.values import integer, job_id, name
from eventjobs.api.view import View
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.replies import Unavailable
from eventjobs.domain.commands import Actor, ActorType, Requeue
from eventjobs.domain.job import Job, State
from eventjobs.domain.limits import BATCH_JOBS_MAX, TOKEN_MAX
from eventjobs.projections import dead_list

_limit = integer(1, TOKEN_MAX)


@frozen
class Wanted:
    """Which dead jobs: of these ids, of this kind, of this queue (None: any), and how many at most (None: all)."""

    ids: tuple[str, ...] | None
    kind: str | None
    queue: str | None
    limit: int | None


async def requeue_dead(request: web.Request) -> web.Response:
    """Requeue what is dead and wanted; how many jobs that were.

    Each page is a commit of its own. When a later one is refused for want of the store, the answer is how many jobs
    were requeued before: a refusal would deny them.
    """
    faults = Faults()
    Query(request, faults).end()
    actor = actor_of(request, ActorType.OPERATOR, faults)
    wanted = _read(await members_of(request, faults, may_be_absent=True))
    faults.refuse_if_any()
    coordinator, now = request.app[COORDINATOR], request.app[EDGE].now
    requeued = 0
    pages = _Pages(await coordinator.look(lambda view: view.head().size), wanted)
    while True:
        most = None if wanted.limit is None else wanted.limit - requeued
        page = await coordinator.look(partial(pages.next, most=most))
        if not page:
            return answer({"requeued": requeued})
        try:
            requeued += await _requeue(coordinator, page, now(), actor)
        except Unavailable:
            if not requeued:
                raise
            return answer({"requeued": requeued})


def _read(body: Members) -> Wanted:
    wanted = Wanted(
        ids=body.read_list("ids", job_id, 0, BATCH_JOBS_MAX),
        kind=body.read("kind", name),
        queue=body.read("queue", name),
        limit=body.read("limit", _limit),
    )
    body.end()
    return wanted


class _Pages:
    """Pages of wanted dead jobs in the order of their arrival. Each place of that order is passed once, and none
    beyond `last`, so that jobs which die again while this goes on do not keep it going."""

    def __init__(self, last: int, wanted: Wanted) -> None:
        self._last = last
        self._wanted = wanted
        self._above = 0

    def next(self, view: View, most: int | None) -> list[str]:
        """The ids of the next page, at most `most` of them; empty when there are no more."""
        most = BATCH_JOBS_MAX if most is None else min(most, BATCH_JOBS_MAX)
        if self._wanted.ids is None:
            kind, queue = self._wanted.kind, self._wanted.queue
            found = dead_list.oldest(view, kind=kind, queue=queue, limit=most, above=self._above)
        else:
            found = self._named(view)[:most]
        page = [(position, job_id) for position, job_id in found if position <= self._last]
        if page:
            self._above = page[-1][0]
        return [job_id for _, job_id in page]

    def _named(self, view: View) -> list[tuple[int, str]]:
        jobs = [job for job_id in self._wanted.ids if (job := view.job(job_id)) is not None and self._fits(job)]
        return sorted((job.spec.position, job.id) for job in jobs if job.spec.position > self._above)

    def _fits(self, job: Job) -> bool:
        kind, queue = self._wanted.kind, self._wanted.queue
        return job.state is State.DEAD and kind in (None, job.spec.kind) and queue in (None, job.spec.queue)


async def _requeue(coordinator: Coordinator, ids: list[str], now: int, actor: Actor) -> int:
    """Requeue those that are still dead; how many it were."""
    commands = [Requeue(job_id=job_id, now=now, actor=actor) for job_id in ids]
    return sum(isinstance(reply, Job) for reply in await coordinator.execute(commands))
