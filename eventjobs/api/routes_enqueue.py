"""POST /jobs and POST /jobs/batch."""

from __future__ import annotations

from aiohttp import web

from eventjobs.api.answers import answer
from eventjobs.api.body import members_of
from eventjobs.api.edge import actor_of
from eventjobs.api.enqueue_request import KEY_HEADER, Occasion, read_job, read_key_header
from eventjobs.api.faults import Faults
from eventjobs.api.keys import COORDINATOR, EDGE
from eventjobs.api.problems import Problem, Refused, of_rejection
from eventjobs.api.query import Query
from eventjobs.api.render import Document, new_job, stored_job, stored_jobs
from eventjobs.api.view import View
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.replies import BatchRejected, Enqueued
from eventjobs.domain.commands import ActorType, Enqueue
from eventjobs.domain.job import Job
from eventjobs.domain.limits import ANSWER_BYTES_MAX, BATCH_JOBS_MAX

REPLAYED = {"Idempotent-Replayed": "true"}


async def enqueue(request: web.Request) -> web.Response:
    """Put one job in: 201 with the job, 200 when its idempotency key brought back an earlier one."""
    faults = Faults()
    Query(request, faults).end()
    key = read_key_header(request.headers.getall(KEY_HEADER, ()), faults)
    occasion = _occasion(request, faults)
    body = await members_of(request, faults)
    command = read_job(body, occasion, key)
    faults.refuse_if_any()
    ((reply, document),) = await _enqueued(request.app[COORDINATOR], [command])
    return answer(document, 201) if reply.created else answer(document, 200, REPLAYED)


async def enqueue_batch(request: web.Request) -> web.Response:
    """Put many jobs in, all or none."""
    faults = Faults()
    Query(request, faults).end()
    if KEY_HEADER in request.headers:
        faults.add(KEY_HEADER, "belongs to a single job; in a batch each job has its own idempotency_key")
    occasion = _occasion(request, faults)
    body = await members_of(request, faults)
    jobs = body.require_objects("jobs", BATCH_JOBS_MAX)
    body.end()
    commands = [read_job(job, occasion) for job in jobs]
    faults.refuse_if_any()
    replies = await _enqueued(request.app[COORDINATOR], commands) if commands else []
    created = sum(reply.created for reply, _ in replies)
    return answer({"jobs": [document for _, document in replies], "created": created}, 201)


def _occasion(request: web.Request, faults: Faults) -> Occasion:
    edge = request.app[EDGE]
    return Occasion(edge, edge.now(), actor_of(request, ActorType.PRODUCER, faults))


async def _enqueued(coordinator: Coordinator, commands: list[Enqueue]) -> list[tuple[Enqueued, Document]]:
    """Each reply with its job as the answer shows it. Raises Refused: with 409 when a key stands in the way, with 413
    when jobs of earlier requests are too much for one answer."""
    replies = await coordinator.enqueue(commands)
    if not isinstance(replies, BatchRejected) and all(reply.created for reply in replies):
        payloads = (None if command.payload is None else command.payload.text for command in commands)
        return [(reply, new_job(reply.job, payload)) for reply, payload in zip(replies, payloads, strict=True)]
    if isinstance(replies, BatchRejected):
        raise await coordinator.look(lambda view: _key_reused(view, replies, len(commands)))
    if len(replies) > 1 and sum(_content_bytes(reply.job) for reply in replies) > ANSWER_BYTES_MAX:
        raise _too_much_to_show(replies)
    jobs = await coordinator.look(lambda view: stored_jobs(view, [reply.job for reply in replies]))
    return list(zip(replies, jobs, strict=True))


def _content_bytes(job: Job) -> int:
    """The bytes of payload, result and error, which are not read for this."""
    return sum(ref.size for ref in (job.spec.payload, job.result, job.error) if ref is not None)


def _too_much_to_show(replies: list[Enqueued]) -> Refused:
    """The refusal, with what the answer would have said of ids: jobs that are new are enqueued by now."""
    detail = (
        f"the jobs are enqueued, but payloads, results and errors of earlier ones among them pass {ANSWER_BYTES_MAX} "
        "bytes; to see them ask for fewer jobs in one batch"
    )
    more = {"ids": [reply.job.id for reply in replies], "created": sum(reply.created for reply in replies)}
    return Refused(Problem("too_large", detail, more))


def _key_reused(view: View, rejected: BatchRejected, asked: int) -> Refused:
    """The refusal, with the job that holds the key. Two jobs of one batch that differ leave no job to show."""
    holder = rejected.rejection.job
    more = {} if holder is None else {"job": stored_job(view, holder)}
    if asked > 1:
        more["index"] = rejected.index
    return Refused(of_rejection(rejected.rejection, **more))
