"""A job as the core sees it: what was asked for, and how far it has come.

Times are integer microseconds since 1970 UTC. Contents (payload, result, error) are not part of a job; a job
points at them by the position of the event that brought them.
"""

from __future__ import annotations

from enum import StrEnum

from eventjobs.domain.retry import RetryPolicy
from eventjobs.domain.value import Value


class State(StrEnum):
    """The six states of the lifecycle. "Scheduled" is a view: queued with `run_at` in the future."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELED = "canceled"

    __hash__ = str.__hash__  # Enum's own is a Python function, and states are keys on the hot path


FINISHED = (State.SUCCEEDED, State.DEAD, State.CANCELED)
"""States in which nobody works on a job any more."""

WAITING = (State.QUEUED, State.FAILED)
"""States from which a job can be leased. Tuples, as looking through two or three members takes less than a hash."""

PAYLOAD, RESULT, ERROR = "payload", "result", "error"
"""The contents a job may have, as `Job.erased` names them."""


class DeathCause(StrEnum):
    """Why a job was given up."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    NOT_RETRYABLE = "not_retryable"
    LEASE_EXPIRED = "lease_expired"

    __hash__ = str.__hash__


class ContentRef(Value):
    """Where a content lies: at the position of the event that brought it. `size` in bytes."""

    position: int
    size: int


class JobSpec(Value):
    """What the producer asked for. It changes in that an erased payload and a forgotten idempotency key become None.

    `position` is that of job_enqueued and so the job's place in the order of arrival. `asked_run_at` and
    `asked_delay` (microseconds) keep the schedule as it was sent, to tell whether a repeated request is the same.
    `payload` None stands for JSON null.
    """

    id: str
    position: int
    kind: str
    queue: str
    priority: int
    max_attempts: int
    retry_policy: RetryPolicy
    idempotency_key: str | None
    asked_run_at: int | None
    asked_delay: int | None
    payload: ContentRef | None
    created_at: int


class Lease(Value):
    """A worker's right to run the job until `expires_at`; `duration` is what a renewal adds by default."""

    worker: str
    expires_at: int
    duration: int
    leased_at: int


class Lapse(Value):
    """The last thing that went wrong was a lease that ran out: whose, and when."""

    worker: str
    expires_at: int


class Job(Value):
    """A job's current state, the fold of its events.

    `version` counts its events from 1. `lease` is set exactly while running. `lease_token` only grows. At most one
    of `error` (a content) and `lapse` (a lease that ran out) is set: the last failure. `death_cause` is set
    exactly while dead. `erased` names the contents (payload, result, error) of a finished job that are gone; their
    references are None. A `retired` job has left the live store: all that is left of it is what its idempotency key
    stands for.
    """

    spec: JobSpec
    version: int
    state: State
    attempts: int
    run_at: int
    lease_token: int
    lease: Lease | None
    result: ContentRef | None
    error: ContentRef | None
    lapse: Lapse | None
    death_cause: DeathCause | None
    updated_at: int
    finished_at: int | None
    erased: tuple[str, ...] = ()
    retired: bool = False

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def waiting(self) -> bool:
        """Whether the job can be leased once its `run_at` has come."""
        return self.state in WAITING
