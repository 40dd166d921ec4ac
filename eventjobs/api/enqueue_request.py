"""What a producer asks for: from the members of a job to the command that enqueues it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from eventjobs.api.edge import Edge
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.members import Members
from eventjobs.api.policies import read_policy
from eventjobs.api.values import duration, integer, name, printable
from eventjobs.api.wire_time import moment
from eventjobs.domain.commands import Actor, Enqueue
from eventjobs.domain.content import Content
from eventjobs.domain.limits import (
    DELAY_SECONDS_MAX,
    IDEMPOTENCY_KEY_LENGTH_MAX,
    MAX_ATTEMPTS_DEFAULT,
    MAX_ATTEMPTS_MAX,
    MAX_ATTEMPTS_MIN,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    QUEUE_DEFAULT,
)

KEY_HEADER = "Idempotency-Key"

_priority = integer(PRIORITY_MIN, PRIORITY_MAX)
_max_attempts = integer(MAX_ATTEMPTS_MIN, MAX_ATTEMPTS_MAX)
_delay = duration(0, DELAY_SECONDS_MAX)
_idempotency_key = printable(IDEMPOTENCY_KEY_LENGTH_MAX)


@frozen
class Occasion:
    """What all jobs of one request share."""

    edge: Edge
    now: int
    actor: Actor


def read_job(job: Members, occasion: Occasion, header_key: str | None = None) -> Enqueue:
    """The command for one job. After a fault it may hold None anywhere and must not be used.

    `header_key` is the idempotency key as the request's header has it.
    """
    if job.gives("run_at") and job.gives("delay_seconds"):
        job.fault("delay_seconds", "cannot be given together with run_at")
    payload = job.content("payload")
    command = Enqueue(
        job_id=occasion.edge.new_id(),
        kind=_kind(job),
        queue=job.read("queue", name, QUEUE_DEFAULT),
        priority=job.read("priority", _priority, PRIORITY_DEFAULT),
        max_attempts=job.read("max_attempts", _max_attempts, MAX_ATTEMPTS_DEFAULT),
        retry_policy=read_policy(job),
        idempotency_key=_key(job, header_key),
        run_at=job.read("run_at", moment),
        delay=job.read("delay_seconds", _delay),
        payload=None if payload is None else Content(payload, occasion.edge.salt()),
        now=occasion.now,
        actor=occasion.actor,
    )
    job.end()
    return command


def _kind(job: Members) -> str | None:
    """`job_type` is another name for kind."""
    kind, alias = job.read("kind", name, ""), job.read("job_type", name, "")
    if kind == alias == "":
        job.fault("kind", "is required")
    elif kind and alias and kind != alias:
        job.fault("job_type", "must equal kind, of which it is another name")
    return kind or alias


def _key(job: Members, header_key: str | None) -> str | None:
    key = job.read("idempotency_key", _idempotency_key)
    if header_key is None:
        return key
    if key is not None and key != header_key:
        job.fault("idempotency_key", f"must equal the header {KEY_HEADER}")
    return header_key


def read_key_header(sent: Sequence[str], faults: Faults) -> str | None:
    """The idempotency key a request's header fields of that name give; None without any."""
    if not sent:
        return None
    if len(sent) > 1:
        faults.add(KEY_HEADER, "must be given once")
    try:
        return _idempotency_key(sent[0])
    except Unfit as unfit:
        faults.add(KEY_HEADER, str(unfit))
        return None
