"""Commands, events and contents with sensible defaults, so that a test names only what it is about.

All of them belong to one story: a job enqueued at `at(0)` with five attempts, leased by `WORKER` for 30 seconds
(until `at(30)`), and asked about at `at(10)`, in the middle of its first lease. Ids, salts and times are fixed:
the same call gives the same value, always.
"""

from __future__ import annotations

from uuid import UUID

from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.content import SALT_BYTES, Content
from eventjobs.domain.job import DeathCause
from eventjobs.domain.limits import MAX_ATTEMPTS_DEFAULT, MICROSECONDS
from eventjobs.domain.retry import DEFAULT_POLICY, RetryPolicy

START = 1_767_225_600 * MICROSECONDS
"""When every story starts: 2026-01-01T00:00:00Z, in microseconds since 1970."""


def seconds(number: float) -> int:
    """A duration in microseconds."""
    return round(number * MICROSECONDS)


def at(number: float) -> int:
    """The time `number` seconds after START."""
    return START + seconds(number)


def an_id(number: int) -> str:
    """A job id for each number: well-formed UUIDv7 text that sorts as the numbers do."""
    return str(UUID(int=(0x0190_0000_0000_7000_8000 << 48) + number))


def content(text: str = '{"n": 1}', salt: int = 0) -> Content:
    """A content with a fixed salt; different numbers give different salts."""
    return Content(text.encode(), salt.to_bytes(SALT_BYTES))


JOB_ID = an_id(1)
NOW = at(10)
LEASE = seconds(30)
WORKER = "worker-1"
PAYLOAD = content('{"n": 1}')
RESULT = content('"done"')
ERROR = content('{"type": "Error", "message": "boom"}')

PRODUCER_ACTOR = c.Actor(c.ActorType.PRODUCER, "producer-1")
WORKER_ACTOR = c.Actor(c.ActorType.WORKER, WORKER)
OPERATOR_ACTOR = c.Actor(c.ActorType.OPERATOR, "operator-1")


def enqueue(
    job_id: str = JOB_ID,
    *,
    kind: str = "email",
    queue: str = "default",
    priority: int = 0,
    max_attempts: int = MAX_ATTEMPTS_DEFAULT,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
    idempotency_key: str | None = None,
    run_at: int | None = None,
    delay: int | None = None,
    payload: Content | None = PAYLOAD,
    now: int = START,
) -> c.Enqueue:
    """A producer asks for an email job, due at once, with the default policy."""
    return c.Enqueue(
        job_id=job_id,
        kind=kind,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        retry_policy=retry_policy,
        idempotency_key=idempotency_key,
        run_at=run_at,
        delay=delay,
        payload=payload,
        now=now,
        actor=PRODUCER_ACTOR,
    )


def lease(*, worker: str = WORKER, duration: int = LEASE, request_id: str | None = None, now: int = NOW) -> c.Lease:
    """A worker asks for a job for 30 seconds."""
    actor = c.Actor(c.ActorType.WORKER, worker)
    return c.Lease(worker=worker, duration=duration, request_id=request_id, now=now, actor=actor)


def renew(job_id: str = JOB_ID, *, token: int = 1, duration: int | None = None, now: int = NOW) -> c.Renew:
    """The worker of the first lease asks for more time: the lease's own duration."""
    return c.Renew(job_id=job_id, token=token, duration=duration, now=now, actor=WORKER_ACTOR)


def complete(job_id: str = JOB_ID, *, token: int = 1, result: Content | None = RESULT, now: int = NOW) -> c.Complete:
    """The worker of the first lease reports success."""
    return c.Complete(job_id=job_id, token=token, result=result, now=now, actor=WORKER_ACTOR)


def fail(
    job_id: str = JOB_ID,
    *,
    token: int = 1,
    error: Content = ERROR,
    retry: bool = True,
    delay: int | None = None,
    roll: float = 0.0,
    now: int = NOW,
) -> c.Fail:
    """The worker of the first lease reports a failure worth retrying, with no jitter taken off."""
    return c.Fail(
        job_id=job_id, token=token, error=error, retry=retry, delay=delay, roll=roll, now=now, actor=WORKER_ACTOR
    )


def release(job_id: str = JOB_ID, *, token: int = 1, now: int = NOW) -> c.Release:
    """The worker of the first lease gives the job back."""
    return c.Release(job_id=job_id, token=token, now=now, actor=WORKER_ACTOR)


def expire(job_id: str = JOB_ID, *, now: int = NOW) -> c.Expire:
    """The rescuer takes the job back."""
    return c.Expire(job_id=job_id, now=now, actor=c.COORDINATOR)


def cancel(job_id: str = JOB_ID, *, reason: str | None = None, now: int = NOW) -> c.Cancel:
    """An operator stops the job."""
    return c.Cancel(job_id=job_id, reason=reason, now=now, actor=OPERATOR_ACTOR)


def requeue(job_id: str = JOB_ID, *, now: int = NOW) -> c.Requeue:
    """An operator revives the job."""
    return c.Requeue(job_id=job_id, now=now, actor=OPERATOR_ACTOR)


def erase(job_id: str = JOB_ID, *, reason: str | None = None, now: int = NOW) -> c.Erase:
    """An operator has the job's contents erased."""
    return c.Erase(job_id=job_id, reason=reason, now=now, actor=OPERATOR_ACTOR)


def retire(job_id: str = JOB_ID, *, rule: str = "succeeded 1s", now: int = NOW) -> c.Retire:
    """A rule of retention takes the job out of the live store."""
    return c.Retire(job_id=job_id, rule=rule, now=now, actor=c.RETENTION)


def forget_key(job_id: str = JOB_ID, *, rule: str = "keys 1s", now: int = NOW) -> c.ForgetKey:
    """A rule of retention lets the job's idempotency key be free."""
    return c.ForgetKey(job_id=job_id, rule=rule, now=now, actor=c.RETENTION)


def enqueued(
    *,
    kind: str = "email",
    queue: str = "default",
    priority: int = 0,
    max_attempts: int = MAX_ATTEMPTS_DEFAULT,
    retry_policy: RetryPolicy = DEFAULT_POLICY,
    idempotency_key: str | None = None,
    asked_run_at: int | None = None,
    asked_delay: int | None = None,
    run_at: int = START,
    payload: Content | None = PAYLOAD,
) -> e.JobEnqueued:
    """What `enqueue()` leads to."""
    return e.JobEnqueued(
        kind=kind,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        retry_policy=retry_policy,
        idempotency_key=idempotency_key,
        asked_run_at=asked_run_at,
        asked_delay=asked_delay,
        run_at=run_at,
        payload=None if payload is None else payload.digest(),
    )


def leased(
    *,
    token: int = 1,
    attempt: int = 1,
    worker: str = WORKER,
    expires_at: int = at(30),
    duration: int = LEASE,
    request_id: str | None = None,
) -> e.JobLeased:
    """The first lease, taken at `at(0)` for 30 seconds."""
    return e.JobLeased(worker, token, attempt, expires_at, duration, request_id)


def renewed(*, token: int = 1, expires_at: int = at(40)) -> e.LeaseRenewed:
    """What `renew()` leads to: the lease runs until `at(40)`."""
    return e.LeaseRenewed(token, expires_at)


def released(*, token: int = 1, run_at: int = NOW) -> e.LeaseReleased:
    """What `release()` leads to."""
    return e.LeaseReleased(token, run_at)


def expired(*, token: int = 1, attempt: int = 1, run_at: int = NOW) -> e.LeaseExpired:
    """The first lease ran out and was seen at `at(10)`, with attempts left."""
    return e.LeaseExpired(token, attempt, run_at)


def completed(*, token: int = 1, attempt: int = 1, result: Content | None = RESULT) -> e.JobCompleted:
    """What `complete()` leads to."""
    return e.JobCompleted(token, attempt, None if result is None else result.digest())


def failed(*, token: int = 1, attempt: int = 1, run_at: int = at(11), error: Content = ERROR) -> e.AttemptFailed:
    """What `fail()` leads to: a retry a second later."""
    return e.AttemptFailed(token, attempt, run_at, error.digest())


def died(
    *,
    cause: DeathCause = DeathCause.ATTEMPTS_EXHAUSTED,
    token: int = 1,
    attempt: int = 1,
    error: Content | None = ERROR,
) -> e.JobDied:
    """The first attempt's failure was the last one."""
    return e.JobDied(cause, token, attempt, None if error is None else error.digest())


def canceled(*, reason: str | None = None) -> e.JobCanceled:
    """What `cancel()` leads to."""
    return e.JobCanceled(reason)


def requeued(*, run_at: int = NOW) -> e.JobRequeued:
    """What `requeue()` leads to."""
    return e.JobRequeued(run_at)


def erased(
    *,
    payload: int | None = 1,
    result: int | None = None,
    errors: tuple[int, ...] = (),
    reason: str | None = None,
) -> e.ContentsErased:
    """Contents are gone: of the payload alone, unless more positions are named."""
    return e.ContentsErased(payload, result, errors, reason)


def retired(
    *,
    payload: int | None = 1,
    result: int | None = None,
    errors: tuple[int, ...] = (),
    rule: str = "succeeded 1s",
) -> e.JobRetired:
    """The job left the live store, its payload with it."""
    return e.JobRetired(payload, result, errors, rule)


def key_forgotten(*, rule: str = "keys 1s") -> e.IdempotencyKeyForgotten:
    """What `forget_key()` leads to."""
    return e.IdempotencyKeyForgotten(rule)
