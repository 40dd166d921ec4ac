"""Expected refusals: values with stable codes, never exceptions.

Precedence, when several would apply: `job_not_found`, then `stale_token`, then `lease_expired`, then
`illegal_transition`. `idempotency_key_reused` only answers an enqueue, `storage_full` only new work.
`not_available` and `not_expired` answer the coordinator's own commands and never reach the wire.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from eventjobs.domain.job import Job


class Code(StrEnum):
    """The stable names of the refusals, as the wire shows them."""

    JOB_NOT_FOUND = "job_not_found"
    STALE_TOKEN = "stale_token"
    LEASE_EXPIRED = "lease_expired"
    ILLEGAL_TRANSITION = "illegal_transition"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    STORAGE_FULL = "storage_full"
    NOT_AVAILABLE = "not_available"
    NOT_EXPIRED = "not_expired"


@frozen
class Rejection:
    """Why nothing changed. `job` is the job as it stands, where showing it helps the caller."""

    code: Code
    message: str
    job: Job | None = None
