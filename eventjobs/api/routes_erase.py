"""POST /erase: erase the contents of finished jobs in bulk, those that ended first before others."""

from __future__ import annotations

from functools import partial
from itertools import islice

from aiohttp import web
from attrs import frozen

from eventjobs.api.answers import answer
from eventjobs.api.body import members_of
from eventjobs.api.edge import actor_of
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.keys import COORDINATOR, EDGE
from eventjobs.api.members import Members
from eventjobs.api.query import Query
from eventjobs.api.values import duration, integer, job_id, name, one_of, reason
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.erasing import Choice, erasable, erasable_of
from eventjobs.coordinator.replies import Unavailable
from eventjobs.coordinator.retention import STEP_JOBS
from eventjobs.domain.commands import Actor, ActorType, Erase
from eventjobs.domain.durations import AGE_SECONDS_MAX
from eventjobs.domain.job import FINISHED, Job, State
from eventjobs.domain.limits import BATCH_JOBS_MAX

NARROWING = ("ids", "kind", "queue", "state", "older_than_seconds")

_limit = integer(1, BATCH_JOBS_MAX)
_older = duration(0, AGE_SECONDS_MAX)


@frozen
class Wanted:
    """Which jobs: of these ids (None: any), of this choice; at most `limit`, for this reason."""

    ids: tuple[str, ...] | None
    choice: Choice
    limit: int
    reason: str | None


async def erase_many(request: web.Request) -> web.Response:
    """Erase what is finished and wanted; of how many jobs that was, 1,000 at most.

    Each step is a request of its own to the writer. When a later one is refused for want of the store, the answer is
    what was erased before: a refusal would deny it.
    """
    faults = Faults()
    Query(request, faults).end()
    actor = actor_of(request, ActorType.OPERATOR, faults)
    now = request.app[EDGE].now
    wanted = _read(await members_of(request, faults), faults, now())
    faults.refuse_if_any()
    coordinator = request.app[COORDINATOR]
    named = None
    if wanted.ids is not None:
        named = iter(await coordinator.look(partial(erasable_of, choice=wanted.choice, ids=wanted.ids)))
    erased = 0
    while erased < wanted.limit:
        most = min(STEP_JOBS, wanted.limit - erased)
        if named is None:
            step = await coordinator.look(partial(erasable, choice=wanted.choice, limit=most))
        else:
            step = list(islice(named, most))
        if not step:
            break
        try:
            erased += await _erase(coordinator, step, now(), actor, wanted.reason)
        except Unavailable:
            if not erased:
                raise
            break
    return answer({"erased": erased})


def _read(body: Members, faults: Faults, now: int) -> Wanted:
    if not any(body.gives(field) for field in NARROWING):
        faults.add("", f"must say which jobs, by one of {', '.join(NARROWING)}")
    ids = body.read_list("ids", job_id, 0, BATCH_JOBS_MAX)
    choice = Choice(
        state=body.read("state", _finished),
        kind=body.read("kind", name),
        queue=body.read("queue", name),
        until=now - (body.read("older_than_seconds", _older) or 0),
    )
    wanted = Wanted(ids, choice, body.read("limit", _limit, BATCH_JOBS_MAX), body.read("reason", reason))
    body.end()
    return wanted


def _finished(value: object) -> State:
    state = one_of(State)(value)
    if state in FINISHED:
        return state
    raise Unfit(f"must be one of {', '.join(sorted(FINISHED))}: only a finished job's contents can be erased")


async def _erase(coordinator: Coordinator, jobs: list[Job], now: int, actor: Actor, why: str | None) -> int:
    """Erase those that are still finished; of how many there was something to erase."""
    commands = [Erase(job_id=job.id, reason=why, now=now, actor=actor) for job in jobs]
    replies = await coordinator.execute(commands)
    return sum(isinstance(reply, Job) and reply.version > job.version for job, reply in zip(jobs, replies, strict=True))
