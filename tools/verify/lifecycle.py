"""Was each event allowed? The command is made anew from the event, and the production `decide` asked about it.

What a record does not hold cannot be asked about, and is held within its bounds instead:

- a failure's delay: the worker may have named one, or the policy drew one by chance; either is at most seven days;
- a renewal's length: the expiry moved to some time within the longest lease, or did not move;
- who asked, and whether a lease took the best of the jobs that waited: `decide` has no say in either; of who asked, the
  sort is held to the catalogue of events.

What a request is held to before it becomes a command (names, numbers within their bounds) is held here as well.
Contents are not looked at: the digest in the event stands for them (contents.py has the texts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.commands import ActorType
from eventjobs.domain.content import ContentDigest
from eventjobs.domain.decide import Holding, decide
from eventjobs.domain.job import DeathCause, Job
from eventjobs.domain.limits import (
    LEASE_SECONDS_MAX,
    LEASE_SECONDS_MIN,
    MAX_ATTEMPTS_MAX,
    MAX_ATTEMPTS_MIN,
    MICROSECONDS,
    NAME_LENGTH_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    RETRY_DELAY_SECONDS_MAX,
)
from eventjobs.domain.rejections import Rejection
from eventjobs.domain.retry import RetryPolicy, policy_faults
from eventjobs.domain.value import Value
from eventjobs.tools.verify.contents import ERASING

POLICIES_REMEMBERED = 1_024
RETRY_DELAY_MAX = RETRY_DELAY_SECONDS_MAX * MICROSECONDS
RENEWAL_MIN, RENEWAL_MAX = round(LEASE_SECONDS_MIN * MICROSECONDS), round(LEASE_SECONDS_MAX * MICROSECONDS)

_NAME = re.compile(rf"[A-Za-z0-9._:/@-]{{1,{NAME_LENGTH_MAX}}}").fullmatch
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_TIME_MAX = 2**62


class OutOfBounds(Exception):
    """A record with values that no request can have brought; the job it speaks of cannot be followed."""


class Recorded(Value):
    """A content of which the digest is known: what a command brings in place of the content itself."""

    recorded: ContentDigest | None

    def digest(self) -> ContentDigest | None:
        return self.recorded


def fault_of(job: Job | None, record: e.Record, key_holder: str | None, errors: tuple[int, ...] = ()) -> str | None:
    """Why this event could not have been decided of the job as it was; None when it could.

    `key_holder` is the id of the job that already has the event's idempotency key, `errors` are the positions of the
    job's errors that were not erased, for an event that erases. Raises OutOfBounds.
    """
    event = record.event
    sort = type(event)
    if record.actor.type not in _ACTORS[sort]:
        return f"no {record.actor.type.value} does that"
    if sort is e.JobEnqueued:
        return _fault_of_enqueue(job, record, event, key_holder)
    if job is None:
        return "there was no such job"
    subject = Holding(job, errors) if sort in ERASING else job
    decision = decide(subject, _COMMANDS[sort](job, record, event))
    if decision == (event,):
        bound = _BOUNDS.get(sort)
        return None if bound is None else bound(job, record, event)
    if isinstance(decision, Rejection):
        return f"the command would have been refused: {decision.code.value}: {decision.message}"
    if not decision:
        return "the command had had its effect before, and would have been answered without a new event"
    return f"what would have been recorded is {decision[0]}"


def _fault_of_enqueue(job: Job | None, record: e.Record, event: e.JobEnqueued, key_holder: str | None) -> str | None:
    if job is not None:
        return "the job was there already"
    if not (
        _UUID(record.job_id)
        and _NAME(event.kind)
        and _NAME(event.queue)
        and PRIORITY_MIN <= event.priority <= PRIORITY_MAX
        and MAX_ATTEMPTS_MIN <= event.max_attempts <= MAX_ATTEMPTS_MAX
        and abs(event.run_at) <= _TIME_MAX
        and _is_sound(event.retry_policy)
    ):
        raise OutOfBounds("an id, a name or a number is out of bounds")
    if key_holder is not None:
        return f"its idempotency key belongs to job {key_holder}"
    command = c.Enqueue(
        job_id=record.job_id,
        kind=event.kind,
        queue=event.queue,
        priority=event.priority,
        max_attempts=event.max_attempts,
        retry_policy=event.retry_policy,
        idempotency_key=event.idempotency_key,
        run_at=event.asked_run_at,
        delay=event.asked_delay,
        payload=_content(event.payload),
        now=record.time,
        actor=record.actor,
    )
    decision = decide(None, command)
    return None if decision == (event,) else f"what would have been recorded is {decision[0]}"


@lru_cache(POLICIES_REMEMBERED)
def _is_sound(policy: RetryPolicy) -> bool:
    return not policy_faults(policy)


def _content(digest: ContentDigest | None) -> Recorded | None:
    return None if digest is None else Recorded(digest)


def _lease(job: Job, record: e.Record, event: e.JobLeased) -> c.Command:
    return c.Lease(
        worker=event.worker, duration=event.duration, request_id=event.request_id, now=record.time, actor=record.actor
    )


def _renew(job: Job, record: e.Record, event: e.LeaseRenewed) -> c.Command:
    return c.Renew(
        job_id=job.id, token=event.token, duration=event.expires_at - record.time, now=record.time, actor=record.actor
    )


def _release(job: Job, record: e.Record, event: e.LeaseReleased) -> c.Command:
    return c.Release(job_id=job.id, token=event.token, now=record.time, actor=record.actor)


def _expire(job: Job, record: e.Record, event: e.LeaseExpired) -> c.Command:
    return c.Expire(job_id=job.id, now=record.time, actor=record.actor)


def _complete(job: Job, record: e.Record, event: e.JobCompleted) -> c.Command:
    return c.Complete(
        job_id=job.id, token=event.token, result=_content(event.result), now=record.time, actor=record.actor
    )


def _fail(job: Job, record: e.Record, event: e.AttemptFailed) -> c.Command:
    return _failure(job, record, event, True, event.run_at - record.time)


def _die(job: Job, record: e.Record, event: e.JobDied) -> c.Command:
    if event.cause is DeathCause.LEASE_EXPIRED:
        return c.Expire(job_id=job.id, now=record.time, actor=record.actor)
    return _failure(job, record, event, event.cause is DeathCause.ATTEMPTS_EXHAUSTED, None)


def _failure(
    job: Job, record: e.Record, event: e.AttemptFailed | e.JobDied, retry: bool, delay: int | None
) -> c.Command:
    return c.Fail(
        job_id=job.id,
        token=event.token,
        error=Recorded(event.error),
        retry=retry,
        delay=delay,
        roll=0.0,
        now=record.time,
        actor=record.actor,
    )


def _cancel(job: Job, record: e.Record, event: e.JobCanceled) -> c.Command:
    return c.Cancel(job_id=job.id, reason=event.reason, now=record.time, actor=record.actor)


def _requeue(job: Job, record: e.Record, event: e.JobRequeued) -> c.Command:
    return c.Requeue(job_id=job.id, now=record.time, actor=record.actor)


def _erase(job: Job, record: e.Record, event: e.ContentsErased) -> c.Command:
    return c.Erase(job_id=job.id, reason=event.reason, now=record.time, actor=record.actor)


def _retire(job: Job, record: e.Record, event: e.JobRetired) -> c.Command:
    return c.Retire(job_id=job.id, rule=event.rule, now=record.time, actor=record.actor)


def _forget_key(job: Job, record: e.Record, event: e.IdempotencyKeyForgotten) -> c.Command:
    return c.ForgetKey(job_id=job.id, rule=event.rule, now=record.time, actor=record.actor)


def _fault_of_renewal(job: Job, record: e.Record, event: e.LeaseRenewed) -> str | None:
    if event.expires_at == job.lease.expires_at or RENEWAL_MIN <= event.expires_at - record.time <= RENEWAL_MAX:
        return None
    return "no lease is that long"


def _fault_of_delay(job: Job, record: e.Record, event: e.AttemptFailed) -> str | None:
    return None if 0 <= event.run_at - record.time <= RETRY_DELAY_MAX else "no retry waits that long"


def _fault_of_length(job: Job, record: e.Record, event: e.JobLeased) -> str | None:
    return None if RENEWAL_MIN <= event.duration <= RENEWAL_MAX else "no lease is that long"


def _fault_of_death(job: Job, record: e.Record, event: e.JobDied) -> str | None:
    expired = event.cause is DeathCause.LEASE_EXPIRED
    if expired is not (record.actor.type is ActorType.COORDINATOR):
        return f"no {record.actor.type.value} does that"
    return "a failure brings an error" if event.error is None and not expired else None


_ACTORS: dict[type, tuple[ActorType, ...]] = {
    e.JobEnqueued: (ActorType.PRODUCER,),
    e.JobLeased: (ActorType.WORKER,),
    e.LeaseRenewed: (ActorType.WORKER,),
    e.LeaseReleased: (ActorType.WORKER,),
    e.LeaseExpired: (ActorType.COORDINATOR,),
    e.JobCompleted: (ActorType.WORKER,),
    e.AttemptFailed: (ActorType.WORKER,),
    e.JobDied: (ActorType.WORKER, ActorType.COORDINATOR),
    e.JobCanceled: (ActorType.OPERATOR,),
    e.JobRequeued: (ActorType.OPERATOR,),
    e.ContentsErased: (ActorType.OPERATOR, ActorType.COORDINATOR),
    e.JobRetired: (ActorType.COORDINATOR,),
    e.IdempotencyKeyForgotten: (ActorType.COORDINATOR,),
}
"""Who does what: the catalogue of events (specs/events.md)."""

_COMMANDS: dict[type, Callable[..., c.Command]] = {
    e.JobLeased: _lease,
    e.LeaseRenewed: _renew,
    e.LeaseReleased: _release,
    e.LeaseExpired: _expire,
    e.JobCompleted: _complete,
    e.AttemptFailed: _fail,
    e.JobDied: _die,
    e.JobCanceled: _cancel,
    e.JobRequeued: _requeue,
    e.ContentsErased: _erase,
    e.JobRetired: _retire,
    e.IdempotencyKeyForgotten: _forget_key,
}
"""How the command that led to an event is made anew."""

_BOUNDS: dict[type, Callable[..., str | None]] = {
    e.JobLeased: _fault_of_length,
    e.LeaseRenewed: _fault_of_renewal,
    e.AttemptFailed: _fault_of_delay,
    e.JobDied: _fault_of_death,
}
"""What is held within its bounds where it cannot be computed anew."""
