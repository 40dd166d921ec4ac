"""Events: what happened, in the past tense, under stable names and format versions.

An event says what was decided; the record around it says where in the log, to which job, when and by whom.
Times are microseconds since 1970 UTC, durations microseconds. Stored events never change: a new shape is a new
format version.
"""

from __future__ import annotations

from typing import ClassVar

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import ContentDigest
from eventjobs.domain.job import DeathCause
from eventjobs.domain.retry import RetryPolicy
from eventjobs.domain.value import Value


class JobEnqueued(Value):
    """A producer put a job in. `asked_run_at` and `asked_delay` are what it asked for, `run_at` what was decided."""

    type: ClassVar[str] = "job_enqueued"
    format_version: ClassVar[int] = 1

    kind: str
    queue: str
    priority: int
    max_attempts: int
    retry_policy: RetryPolicy
    idempotency_key: str | None
    asked_run_at: int | None
    asked_delay: int | None
    run_at: int
    payload: ContentDigest | None


class JobLeased(Value):
    """A worker was given the job until `expires_at`, under a token no earlier lease of the job carried."""

    type: ClassVar[str] = "job_leased"
    format_version: ClassVar[int] = 1

    worker: str
    token: int
    attempt: int
    expires_at: int
    duration: int
    request_id: str | None


class LeaseRenewed(Value):
    """The worker keeps the job until `expires_at`."""

    type: ClassVar[str] = "lease_renewed"
    format_version: ClassVar[int] = 1

    token: int
    expires_at: int


class LeaseReleased(Value):
    """The worker gave the job back unharmed: the attempt does not count, the job waits again."""

    type: ClassVar[str] = "lease_released"
    format_version: ClassVar[int] = 1

    token: int
    run_at: int


class LeaseExpired(Value):
    """The lease ran out with attempts left: the job waits again, the attempt counted."""

    type: ClassVar[str] = "lease_expired"
    format_version: ClassVar[int] = 1

    token: int
    attempt: int
    run_at: int


class JobCompleted(Value):
    """The attempt succeeded; `result` is None for JSON null."""

    type: ClassVar[str] = "job_completed"
    format_version: ClassVar[int] = 1

    token: int
    attempt: int
    result: ContentDigest | None


class AttemptFailed(Value):
    """The attempt failed with attempts left: the job waits for `run_at`."""

    type: ClassVar[str] = "attempt_failed"
    format_version: ClassVar[int] = 1

    token: int
    attempt: int
    run_at: int
    error: ContentDigest


class JobDied(Value):
    """Given up. `error` is the last failure's, or None when the last lease ran out."""

    type: ClassVar[str] = "job_died"
    format_version: ClassVar[int] = 1

    cause: DeathCause
    token: int
    attempt: int
    error: ContentDigest | None


class JobCanceled(Value):
    """The job was stopped for good; its token, if it was running, is dead."""

    type: ClassVar[str] = "job_canceled"
    format_version: ClassVar[int] = 1

    reason: str | None


class JobRequeued(Value):
    """A dead job was given a fresh set of attempts."""

    type: ClassVar[str] = "job_requeued"
    format_version: ClassVar[int] = 1

    run_at: int


class ContentsErased(Value):
    """Contents of the job are gone from the store, each named by the position of the event that brought it.

    `reason` is what the operator said, or the text of the rule.
    """

    type: ClassVar[str] = "contents_erased"
    format_version: ClassVar[int] = 1

    payload_position: int | None
    result_position: int | None
    error_positions: tuple[int, ...]
    reason: str | None


class JobRetired(Value):
    """The finished job left the live store by a rule, and what contents it still had with it."""

    type: ClassVar[str] = "job_retired"
    format_version: ClassVar[int] = 1

    payload_position: int | None
    result_position: int | None
    error_positions: tuple[int, ...]
    rule: str


class IdempotencyKeyForgotten(Value):
    """The job's idempotency key is free again, by a rule: whoever enqueues under it gets a new job."""

    type: ClassVar[str] = "idempotency_key_forgotten"
    format_version: ClassVar[int] = 1

    rule: str


Event = (
    JobEnqueued
    | JobLeased
    | LeaseRenewed
    | LeaseReleased
    | LeaseExpired
    | JobCompleted
    | AttemptFailed
    | JobDied
    | JobCanceled
    | JobRequeued
    | ContentsErased
    | JobRetired
    | IdempotencyKeyForgotten
)

EVENT_TYPES: dict[str, type] = {cls.type: cls for cls in Event.__args__}
"""Every event class by its stable name."""


class Record(Value):
    """One entry of the log: the event and its place. `version` is the event's number in its job's own history."""

    position: int
    job_id: str
    version: int
    time: int
    actor: Actor
    event: Event


ERASING = (ContentsErased, JobRetired)
"""Events with which contents are gone."""


def erased_positions(event: ContentsErased | JobRetired) -> tuple[int, ...]:
    """The positions whose contents go with the event."""
    single = (event.payload_position, event.result_position)
    return (*(position for position in single if position is not None), *event.error_positions)
