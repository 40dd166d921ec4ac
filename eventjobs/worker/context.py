"""What a handler is given: the job, the token of its lease, and word of when to stop."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

from eventjobs.client.answers import Job
from eventjobs.client.values import from_json

_UNREAD = object()


class JobContext:
    """One attempt of a job.

    `attempt` counts from 1. `token` grows with every lease of the job: a handler that passes it along with its own
    writes can have writes of an older attempt refused.
    """

    __slots__ = (
        "_canceled",
        "_payload",
        "_payload_text",
        "attempt",
        "created_at",
        "id",
        "kind",
        "max_attempts",
        "priority",
        "queue",
        "token",
    )

    id: str
    kind: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    token: int
    created_at: datetime

    def __init__(self, job: Job) -> None:
        self.id = job.id
        self.kind = job.kind
        self.queue = job.queue
        self.priority = job.priority
        self.attempt = job.attempts
        self.max_attempts = job.max_attempts
        self.token = job.lease_token
        self.created_at = job.created_at
        self._payload_text = bytes(job.payload_raw)  # a copy: the raw value keeps the whole answer in memory
        self._payload: Any = _UNREAD
        self._canceled = threading.Event()

    def __repr__(self) -> str:
        return f"<JobContext {self.id} kind={self.kind} attempt={self.attempt} token={self.token}>"

    @property
    def payload(self) -> Any:
        """The payload as a Python value, read once; integers are exact."""
        if self._payload is _UNREAD:
            self._payload = from_json(self._payload_text)
        return self._payload

    @property
    def payload_text(self) -> str:
        """The payload's JSON text exactly as it was sent."""
        return self._payload_text.decode("utf-8")

    @property
    def canceled(self) -> bool:
        """Whether the handler should stop: the lease is lost, the job was canceled, or the worker stops.

        What the handler returns or raises from then on is not sent.
        """
        return self._canceled.is_set()

    def wait_canceled(self, timeout_seconds: float) -> bool:
        """For handlers in threads: sleep, but wake when the handler should stop; says whether it should."""
        return self._canceled.wait(timeout_seconds)

    def cancel(self) -> None:
        """Tell the handler to stop. The worker does this."""
        self._canceled.set()
