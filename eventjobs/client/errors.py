"""What can go wrong between a program and its coordinator.

    EventjobsError
    ├── InvalidValue                 a value that cannot be sent or read; also a ValueError
    ├── Unreachable                  no answer came; whether the request was carried out is not known
    ├── BadAnswer                    an answer came, but not one that a coordinator gives
    └── Refused                      the coordinator said no: code, status, detail, errors, job
        ├── InvalidRequest           400, 415, 422: the request itself is wrong; `errors` names every fault
        │   └── TooLarge             413
        ├── AccessDenied             401, 403
        ├── NotFound                 404: no such path
        │   └── JobNotFound
        ├── Conflict                 409: the job is not in a state that allows it
        │   ├── StaleToken           the lease this token stood for is over
        │   ├── LeaseExpired         the lease ran out before it was renewed
        │   ├── IllegalTransition
        │   └── IdempotencyKeyReused the key belongs to another request; `job` is that request's job
        ├── Unavailable              503: not now; `retry_after_seconds` says when to ask again
        └── StorageFull              507: no room for new work

Errors of the libraries below are translated in one place (transport.py), which keeps them as the cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventjobs.client.answers import Fault, Job, Problem


class EventjobsError(Exception):
    """Everything this package raises on purpose."""


class InvalidValue(EventjobsError, ValueError):
    """A value that JSON or the wire cannot express, or that this Python cannot read. Nothing was sent."""


class Unreachable(EventjobsError):
    """No answer came: the network, a time limit, or a gateway in between.

    The request may have been carried out, unless it is known that it was not `sent`.
    """

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.sent = sent


class BadAnswer(EventjobsError):
    """What answered does not speak like a coordinator: a wrong address, a proxy, an incompatible version."""


class Refused(EventjobsError):
    """The coordinator refused. `problem` is what it said."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        reasons = "; ".join(f"{fault.path}: {fault.message}" if fault.path else fault.message for fault in self.errors)
        return f"{self.code}: {reasons or self.detail}"

    @property
    def code(self) -> str:
        """The stable name of the reason."""
        return self.problem.code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def detail(self) -> str:
        """The reason in words."""
        return self.problem.detail

    @property
    def errors(self) -> Sequence[Fault]:
        """Every fault of the request, each with its path; empty unless the request was invalid."""
        return self.problem.errors

    @property
    def job(self) -> Job | None:
        """The job that stands in the way, where the coordinator shows it."""
        return self.problem.job


class InvalidRequest(Refused):
    """The request itself is wrong. Sending it again will not help."""


class TooLarge(InvalidRequest):
    """The body, the payload or the result is over its limit."""


class AccessDenied(Refused):
    """The coordinator wants to know who asks, or does not let this one."""


class NotFound(Refused):
    """There is no such path."""


class JobNotFound(NotFound):
    """There is no job with this id."""


class Conflict(Refused):
    """The job is not in a state that allows the request."""


class StaleToken(Conflict):
    """The lease this token stood for is over; someone else may have the job."""


class LeaseExpired(Conflict):
    """The lease ran out before it was renewed."""


class IllegalTransition(Conflict):
    """The job's state does not allow this change."""


class IdempotencyKeyReused(Conflict):
    """The key belongs to a job that was asked for differently; `job` is that job."""


class Unavailable(Refused):
    """Not now. Nothing was done, or the outcome is open; asking again is safe after `retry_after_seconds`."""

    def __init__(self, problem: Problem, retry_after_seconds: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class StorageFull(Refused):
    """There is no room for new work. Jobs that are already in can still be run and settled."""


_BY_CODE: dict[str, type[Refused]] = {
    "job_not_found": JobNotFound,
    "stale_token": StaleToken,
    "lease_expired": LeaseExpired,
    "illegal_transition": IllegalTransition,
    "idempotency_key_reused": IdempotencyKeyReused,
}
_BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: AccessDenied,
    403: AccessDenied,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    413: TooLarge,
    415: InvalidRequest,
    422: InvalidRequest,
    507: StorageFull,
}


def refusal(problem: Problem, retry_after_seconds: float | None = None) -> Refused:
    """The error that stands for what the coordinator said. A code or status of a later version is a plain Refused."""
    if problem.status == 503:
        return Unavailable(problem, retry_after_seconds)
    return (_BY_CODE.get(problem.code) or _BY_STATUS.get(problem.status, Refused))(problem)
