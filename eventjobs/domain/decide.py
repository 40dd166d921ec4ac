"""decide: the lifecycle table. From a job and a command to what happens, or why nothing does.

`decide(job, command)` is pure. It returns the events to append (one, as a command appends at most one event per
job), an empty tuple when the command has already had its effect and the same answer is due, or a Rejection.
`job` is None for a job that does not exist. An Enqueue is decided against the holder of its idempotency key; Erase and
Retire against a Holding. A retired job is not there for any other command than ForgetKey.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.content import Content, without_insignificant_space
from eventjobs.domain.job import FINISHED, PAYLOAD, ContentRef, DeathCause, Job, State
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Code, Rejection

Decision = tuple[e.Event, ...] | Rejection

UNCHANGED: Decision = ()


@frozen
class KeyHolder:
    """The job that was enqueued under an idempotency key, and the text of its payload (None for null)."""

    job: Job
    payload: bytes | None


@frozen
class Holding:
    """A job, and the positions of all errors of its attempts that the store still has. Erase and Retire need both."""

    job: Job
    errors: tuple[int, ...]

    @property
    def retired(self) -> bool:
        return self.job.retired


def decide(job: Job | KeyHolder | Holding | None, command: c.Command) -> Decision:
    """What the command does to the job. See the module's text for the three shapes of the answer."""
    if not isinstance(command, c.Enqueue) and (job is None or (job.retired and not isinstance(command, c.ForgetKey))):
        return Rejection(Code.JOB_NOT_FOUND, "there is no job with this id")
    return _RULES[type(command)](job, command)


def _enqueue(holder: KeyHolder | None, command: c.Enqueue) -> Decision:
    if holder is not None:
        if _same_request(holder, command):
            return UNCHANGED
        message = "the idempotency key belongs to a job that was asked for differently"
        return Rejection(Code.IDEMPOTENCY_KEY_REUSED, message, holder.job)
    run_at = command.now + (command.delay or 0) if command.run_at is None else command.run_at
    return (
        e.JobEnqueued(
            command.kind,
            command.queue,
            command.priority,
            command.max_attempts,
            command.retry_policy,
            command.idempotency_key,
            command.run_at,
            command.delay,
            run_at,
            None if command.payload is None else command.payload.digest(),
        ),
    )


def _same_request(holder: KeyHolder, command: c.Enqueue) -> bool:
    spec = holder.job.spec
    return (
        spec.kind == command.kind
        and spec.queue == command.queue
        and spec.priority == command.priority
        and spec.max_attempts == command.max_attempts
        and spec.retry_policy == command.retry_policy
        and spec.asked_run_at == command.run_at
        and spec.asked_delay == command.delay
        and _same_payload(holder, command.payload)
    )


def _same_payload(holder: KeyHolder, asked: Content | None) -> bool:
    """Of an erased payload all that is known is that it was not null."""
    if PAYLOAD in holder.job.erased:
        return asked is not None
    return _same_text(holder.payload, asked)


def _same_text(held: bytes | None, asked: Content | None) -> bool:
    if held is None or asked is None:
        return held is None and asked is None
    return held == asked.text or without_insignificant_space(held) == without_insignificant_space(asked.text)


def _lease(job: Job, command: c.Lease) -> Decision:
    if not job.waiting or job.run_at > command.now:
        return Rejection(Code.NOT_AVAILABLE, "the job is not waiting, or not due")
    return (
        e.JobLeased(
            command.worker,
            job.lease_token + 1,
            job.attempts + 1,
            command.now + command.duration,
            command.duration,
            command.request_id,
        ),
    )


def _renew(job: Job, command: c.Renew) -> Decision:
    if not _holds_lease(job, command.token):
        return _stale(job, command.token)
    if command.now >= job.lease.expires_at:
        return Rejection(Code.LEASE_EXPIRED, "the lease ran out before it was renewed", job)
    duration = job.lease.duration if command.duration is None else command.duration
    return (e.LeaseRenewed(command.token, max(job.lease.expires_at, command.now + duration)),)


def _complete(job: Job, command: c.Complete) -> Decision:
    if job.state is State.SUCCEEDED and job.lease_token == command.token:
        return UNCHANGED
    if not _holds_lease(job, command.token):
        return _stale(job, command.token)
    result = None if command.result is None else command.result.digest()
    return (e.JobCompleted(command.token, job.attempts, result),)


def _fail(job: Job, command: c.Fail) -> Decision:
    if job.lease_token == command.token and _ended_by_failure(job):
        return UNCHANGED
    if not _holds_lease(job, command.token):
        return _stale(job, command.token)
    error = command.error.digest()
    if not command.retry:
        return (e.JobDied(DeathCause.NOT_RETRYABLE, command.token, job.attempts, error),)
    if job.attempts >= job.spec.max_attempts:
        return (e.JobDied(DeathCause.ATTEMPTS_EXHAUSTED, command.token, job.attempts, error),)
    delay = command.delay
    if delay is None:
        delay = round(job.spec.retry_policy.delay_seconds(job.attempts, command.roll) * MICROSECONDS)
    return (e.AttemptFailed(command.token, job.attempts, command.now + delay, error),)


def _release(job: Job, command: c.Release) -> Decision:
    if not _holds_lease(job, command.token):
        return _stale(job, command.token)
    return (e.LeaseReleased(command.token, command.now),)


def _expire(job: Job, command: c.Expire) -> Decision:
    if job.lease is None or command.now < job.lease.expires_at:
        return Rejection(Code.NOT_EXPIRED, "the job holds no lease that ran out", job)
    if job.attempts >= job.spec.max_attempts:
        return (e.JobDied(DeathCause.LEASE_EXPIRED, job.lease_token, job.attempts, None),)
    return (e.LeaseExpired(job.lease_token, job.attempts, command.now),)


def _cancel(job: Job, command: c.Cancel) -> Decision:
    if job.state is State.CANCELED:
        return UNCHANGED
    if job.state in (State.SUCCEEDED, State.DEAD):
        return Rejection(Code.ILLEGAL_TRANSITION, f"a job that is {job.state} cannot be canceled", job)
    return (e.JobCanceled(command.reason),)


def _requeue(job: Job, command: c.Requeue) -> Decision:
    if job.state is not State.DEAD:
        return Rejection(Code.ILLEGAL_TRANSITION, f"only a dead job can be requeued; this one is {job.state}", job)
    if PAYLOAD in job.erased:
        return Rejection(Code.ILLEGAL_TRANSITION, "the job's payload was erased: there is nothing to run", job)
    return (e.JobRequeued(command.now),)


def _erase(holding: Holding, command: c.Erase) -> Decision:
    job = holding.job
    if job.state not in FINISHED:
        message = f"only a finished job's contents can be erased; this one is {job.state}: cancel it first"
        return Rejection(Code.ILLEGAL_TRANSITION, message, job)
    payload, result = _position(job.spec.payload), _position(job.result)
    if payload is None and result is None and not holding.errors:
        return UNCHANGED
    return (e.ContentsErased(payload, result, holding.errors, command.reason),)


def _retire(holding: Holding, command: c.Retire) -> Decision:
    job = holding.job
    if job.state not in FINISHED:
        return Rejection(Code.ILLEGAL_TRANSITION, f"only a finished job can be retired; this one is {job.state}", job)
    return (e.JobRetired(_position(job.spec.payload), _position(job.result), holding.errors, command.rule),)


def _forget_key(job: Job, command: c.ForgetKey) -> Decision:
    if job.state not in FINISHED:
        message = f"only a finished job's idempotency key can be forgotten; this one is {job.state}"
        return Rejection(Code.ILLEGAL_TRANSITION, message, job)
    if job.spec.idempotency_key is None:
        return UNCHANGED
    return (e.IdempotencyKeyForgotten(command.rule),)


def _position(ref: ContentRef | None) -> int | None:
    return None if ref is None else ref.position


def _holds_lease(job: Job, token: int) -> bool:
    return job.state is State.RUNNING and job.lease_token == token


def _ended_by_failure(job: Job) -> bool:
    """Whether a failure sent by a worker is the last thing recorded of the job."""
    return job.state is State.FAILED or (job.state is State.DEAD and job.death_cause is not DeathCause.LEASE_EXPIRED)


def _stale(job: Job, token: int) -> Rejection:
    if job.lease_token == token:
        return Rejection(Code.STALE_TOKEN, f"the lease with token {token} is over; the job is {job.state}", job)
    return Rejection(Code.STALE_TOKEN, f"token {token} is not the job's current token {job.lease_token}", job)


_RULES: dict[type, Callable[..., Decision]] = {
    c.Enqueue: _enqueue,
    c.Lease: _lease,
    c.Renew: _renew,
    c.Complete: _complete,
    c.Fail: _fail,
    c.Release: _release,
    c.Expire: _expire,
    c.Cancel: _cancel,
    c.Requeue: _requeue,
    c.Erase: _erase,
    c.Retire: _retire,
    c.ForgetKey: _forget_key,
}
