"""Jobs as the wire shows them. Stored texts (payload, result, error) are spliced in byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec
import orjson

from eventjobs.api.view import View
from eventjobs.api.wire_time import time_text
from eventjobs.domain.job import ContentRef, Job, Lapse
from eventjobs.domain.retry import RetryPolicy, policy_from

Spliced = orjson.Fragment | None
"""A JSON text that goes into an answer as it is; None for null."""

Document = dict[str, object]

TextOf = Callable[[ContentRef], bytes]
"""Reads a content."""

POLICIES_REMEMBERED = 1_024
"""Jobs of a kind share their policy: its text is made once."""


def job_document(job: Job, payload: Spliced, result: Spliced, error: Spliced) -> Document:
    """The job with its contents given."""
    spec, lease = job.spec, job.lease
    erased = {"erased": job.erased} if job.erased else {}
    return {
        "id": spec.id,
        "kind": spec.kind,
        "queue": spec.queue,
        "priority": spec.priority,
        "payload": payload,
        "state": job.state.value,
        "attempts": job.attempts,
        "max_attempts": spec.max_attempts,
        "retry_policy": policy_text(spec.retry_policy),
        "run_at": time_text(job.run_at),
        "lease_owner": None if lease is None else lease.worker,
        "lease_expires_at": None if lease is None else time_text(lease.expires_at),
        "lease_token": job.lease_token,
        "result": result,
        "error": error,
        "idempotency_key": spec.idempotency_key,
        "created_at": time_text(spec.created_at),
        "updated_at": time_text(job.updated_at),
        "finished_at": None if job.finished_at is None else time_text(job.finished_at),
        **erased,
    }


def stored_job(view: View, job: Job) -> Document:
    """The job with its contents read."""
    return _stored(job, view.content)


def stored_jobs(view: View, jobs: Sequence[Job]) -> list[Document]:
    """Several jobs with their contents read in one go."""
    refs = [ref for job in jobs for ref in (job.spec.payload, job.result, job.error) if ref is not None]
    texts = view.contents(refs)
    return [_stored(job, lambda ref: texts[ref.position]) for job in jobs]


def _stored(job: Job, text_of: TextOf) -> Document:
    error = spliced(text_of, job.error) if job.lapse is None else lapse_text(job.lapse)
    return job_document(job, spliced(text_of, job.spec.payload), spliced(text_of, job.result), error)


def new_job(job: Job, payload: bytes | None) -> Document:
    """The job as it was just enqueued, with the payload it was sent with."""
    return job_document(job, None if payload is None else orjson.Fragment(payload), None, None)


def lapse_text(lapse: Lapse) -> orjson.Fragment:
    """The error a job shows whose lease ran out."""
    message = f"worker {lapse.worker} held the lease until {time_text(lapse.expires_at)} and was not heard of again"
    return orjson.Fragment(orjson.dumps({"type": "lease_expired", "message": message}))


def policy_text(policy: RetryPolicy) -> orjson.Fragment:
    """The policy with every field it has, each number as it was sent: 1 and 1.0 are equal, but not their bytes."""
    return _policy_text(msgspec.msgpack.encode(policy))


@lru_cache(POLICIES_REMEMBERED)
def _policy_text(packed: bytes) -> orjson.Fragment:
    policy = policy_from(msgspec.msgpack.decode(packed))
    return orjson.Fragment(orjson.dumps({"type": policy.type, **policy.parameters()}))


def spliced(text_of: TextOf, ref: ContentRef | None) -> Spliced:
    """A content as it was sent."""
    return None if ref is None else orjson.Fragment(text_of(ref))
