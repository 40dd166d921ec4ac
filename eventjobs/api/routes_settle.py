"""Requests about jobs that are there: one job by its path, or many in one body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.body import members_of
from eventjobs.api.edge import Edge, actor_of
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.keys import COORDINATOR, EDGE
from eventjobs.api.members import Members
from eventjobs.api.problems import Refused, of_rejection
from eventjobs.api.query import Query
from eventjobs.api.render import Document, stored_job
from eventjobs.api.settle_request import HOLDER, Asked, Read
from eventjobs.api.values import job_id, text
from eventjobs.api.wire_time import time_text
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.commands import Actor, ActorType, Command
from eventjobs.domain.job import Job
from eventjobs.domain.limits import BATCH_JOBS_MAX
from eventjobs.domain.rejections import Code, Rejection

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Sent = tuple[str | None, Command]
"""The id of the job a command is about, None when the text that was sent is the id of no job; and the command."""


def settle_one(read: Read) -> Handler:
    """The handler for a worker's word about the job named in the path."""

    async def handler(request: web.Request) -> web.Response:
        return await _one(request, read, operator=False)

    return handler


def operate_one(read: Read) -> Handler:
    """The handler for an operator's word about the job named in the path; the body may be absent."""

    async def handler(request: web.Request) -> web.Response:
        return await _one(request, read, operator=True)

    return handler


def settle_many(read: Read) -> Handler:
    """The handler for a worker's words about many jobs, each with an outcome of its own."""

    async def handler(request: web.Request) -> web.Response:
        faults = Faults()
        Query(request, faults).end()
        body = await members_of(request, faults)
        items = body.require_objects("jobs", BATCH_JOBS_MAX)
        body.end()
        edge = request.app[EDGE]
        now = edge.now()
        names, sent = [], []
        for item in items:
            name = item.require("id", text)
            names.append(name)
            sent.append(_read(read, item, canonical_id(name), now, HOLDER, edge))
        faults.refuse_if_any()
        replies = await _replies(request.app[COORDINATOR], sent)
        return answer({"results": [_result(name, reply) for name, reply in zip(names, replies, strict=True)]})

    return handler


def canonical_id(name: object) -> str | None:
    """A job's id as it is stored; None for a text that is the id of no job."""
    try:
        return job_id(name)
    except Unfit:
        return None


def no_such_job() -> Rejection:
    """What is said of an id that no job has."""
    return Rejection(Code.JOB_NOT_FOUND, "there is no job with this id")


async def _one(request: web.Request, read: Read, *, operator: bool) -> web.Response:
    faults = Faults()
    Query(request, faults).end()
    actor = actor_of(request, ActorType.OPERATOR, faults) if operator else HOLDER
    body = await members_of(request, faults, may_be_absent=operator)
    edge = request.app[EDGE]
    sent = _read(read, body, canonical_id(request.match_info["id"]), edge.now(), actor, edge)
    faults.refuse_if_any()
    coordinator = request.app[COORDINATOR]
    (reply,) = await _replies(coordinator, [sent])
    if isinstance(reply, Rejection):
        raise Refused(of_rejection(reply))
    return answer(await coordinator.look(lambda view: stored_job(view, reply)))


def _read(read: Read, item: Members, job_id: str | None, now: int, actor: Actor, edge: Edge) -> Sent:
    command = read(item, Asked(job_id or "", now, actor, edge))
    item.end()
    return job_id, command


async def _replies(coordinator: Coordinator, sent: list[Sent]) -> list[Job | Rejection]:
    """The reply to each command, in order; there is no need to ask about a job that cannot be."""
    commands = [command for job_id, command in sent if job_id is not None]
    replies = iter(await coordinator.execute(commands) if commands else ())
    return [no_such_job() if job_id is None else next(replies) for job_id, _ in sent]


def _result(name: str, reply: Job | Rejection) -> Document:
    if isinstance(reply, Rejection):
        return {"id": name, "ok": False, "problem": of_rejection(reply).document()}
    return {
        "id": name,
        "ok": True,
        "state": reply.state.value,
        "lease_token": reply.lease_token,
        "lease_expires_at": None if reply.lease is None else time_text(reply.lease.expires_at),
        "run_at": time_text(reply.run_at),
    }
