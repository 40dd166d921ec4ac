"""Requests of the intake: jobs that producers ask for within transactions of their own, in the store's database."""

from __future__ import annotations

from eventjobs.domain.value import Value


class Asked(Value):
    """A job that a producer asked for within a transaction of its own, which was committed: a row of the intake.

    `number` is its place there: of one transaction they grow, and a transaction that asked after another was committed
    has the greater ones. `job_id` is the id the producer was given; `held`: it is that of a job which was in the log by
    then under the request's idempotency key, so no new job may come under it. `text` is the JSON object as POST /jobs
    takes it, `actor` who asked, `time` when (microseconds).
    """

    number: int
    job_id: str
    held: bool
    text: bytes
    actor: str
    time: int


class NotEnqueued(Value):
    """Why a request of the intake did not become a job under the id its producer was given: a code, a text, and the job
    that stands in its place, if there is one."""

    code: str
    reason: str
    job_id: str | None = None
