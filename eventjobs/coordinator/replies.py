"""What the coordinator answers to those who send it commands."""

from __future__ import annotations

from attrs import frozen

from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Rejection


@frozen
class Enqueued:
    """One job of an enqueue request: the job, and whether this request created it."""

    job: Job
    created: bool


@frozen
class Leased:
    """What a lease request was given. A repeated one was given these jobs before, and no waiting brings it others."""

    jobs: list[Job]
    repeated: bool


@frozen
class BatchRejected:
    """A batch that was refused whole: the index of the item that stood in the way, and why."""

    index: int
    rejection: Rejection


@frozen
class Settled:
    """A request that left the intake, and why no job came of it under its id, None when one did."""

    asked: Asked
    refusal: NotEnqueued | None


class Unavailable(Exception):
    """The coordinator cannot take the request now: overloaded, shutting_down or storage_full. Nothing was done.

    `code` is the wire's code; `retry_after_seconds` says when asking again makes sense.
    """

    def __init__(self, code: str, message: str, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds


class StoreAway(Unavailable):
    """The store cannot be reached just now; the coordinator goes on trying."""

    def __init__(self, cause: Exception | str) -> None:
        super().__init__("overloaded", f"the store cannot be reached: {cause}")


class UnknownOutcome(Exception):
    """The commit failed in a way that leaves the outcome open. Ask again: the coordinator, if its store is shared, or
    else the one that comes after it."""
