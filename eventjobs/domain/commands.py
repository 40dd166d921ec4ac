"""Commands: requests to change a job. Each brings its own time, ids, chance and actor.

`now` is microseconds since 1970 UTC. Bounds are checked where a request comes in (limits.py has them).
"""

from __future__ import annotations

from enum import StrEnum

from eventjobs.domain.content import Content
from eventjobs.domain.retry import RetryPolicy
from eventjobs.domain.value import Value


class ActorType(StrEnum):
    """The sorts of those who ask for changes."""

    PRODUCER = "producer"
    WORKER = "worker"
    OPERATOR = "operator"
    COORDINATOR = "coordinator"


class Actor(Value):
    """Who asks: a sort and a name. A worker that settles its lease may leave the name empty: the lease knows it."""

    type: ActorType
    id: str


COORDINATOR = Actor(ActorType.COORDINATOR, "rescuer")
RETENTION = Actor(ActorType.COORDINATOR, "retention")


class Enqueue(Value, kw_only=True):
    """Put a new job in. At most one of `run_at` and `delay` (microseconds) is set; neither means at once."""

    job_id: str
    kind: str
    queue: str
    priority: int
    max_attempts: int
    retry_policy: RetryPolicy
    idempotency_key: str | None
    run_at: int | None
    delay: int | None
    payload: Content | None
    now: int
    actor: Actor


class Lease(Value, kw_only=True):
    """Give the job to a worker for `duration` microseconds. One command serves for every job of a lease request."""

    worker: str
    duration: int
    request_id: str | None
    now: int
    actor: Actor


class Renew(Value, kw_only=True):
    """Move the expiry to now + `duration`; None means the duration the lease was taken for."""

    job_id: str
    token: int
    duration: int | None
    now: int
    actor: Actor


class Complete(Value, kw_only=True):
    """Record success. `result` None stands for JSON null."""

    job_id: str
    token: int
    result: Content | None
    now: int
    actor: Actor


class Fail(Value, kw_only=True):
    """Record a failed attempt. `delay` (microseconds) overrides the policy; `roll` from [0, 1) is its jitter."""

    job_id: str
    token: int
    error: Content
    retry: bool
    delay: int | None
    roll: float
    now: int
    actor: Actor


class Release(Value, kw_only=True):
    """Give the job back unharmed: the attempt is not counted."""

    job_id: str
    token: int
    now: int
    actor: Actor


class Expire(Value, kw_only=True):
    """Take the job from a worker whose lease ran out. Sent by the rescuer."""

    job_id: str
    now: int
    actor: Actor


class Cancel(Value, kw_only=True):
    """Stop the job for good; a running worker learns it at its next renewal."""

    job_id: str
    reason: str | None
    now: int
    actor: Actor


class Requeue(Value, kw_only=True):
    """Give a dead job a fresh set of attempts."""

    job_id: str
    now: int
    actor: Actor


class Erase(Value, kw_only=True):
    """Let payload, result and error texts of a finished job be gone. `reason` is an operator's, or a rule's text."""

    job_id: str
    reason: str | None
    now: int
    actor: Actor


class Retire(Value, kw_only=True):
    """Let a finished job leave the live store, by a rule. Its records stay in the log."""

    job_id: str
    rule: str
    now: int
    actor: Actor


class ForgetKey(Value, kw_only=True):
    """Let the idempotency key of a finished job be free again, by a rule."""

    job_id: str
    rule: str
    now: int
    actor: Actor


Command = Enqueue | Lease | Renew | Complete | Fail | Release | Expire | Cancel | Requeue | Erase | Retire | ForgetKey


def content_of(command: Command) -> Content | None:
    """The content a command brings, to be written beside the event it leads to."""
    match command:
        case Enqueue():
            return command.payload
        case Complete():
            return command.result
        case Fail():
            return command.error
    return None
