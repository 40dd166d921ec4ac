"""What a worker needs of a coordinator. `eventjobs.Client` is one; a simulation may bring another.

Each call raises the client's errors: Unreachable, Unavailable, BadAnswer and a refusal with a status of 500 or more
mean that the coordinator is away for now; any other Refused is its word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eventjobs.client.answers import ItemResult, Job
from eventjobs.client.requests import Completion, Failure, Renewal


class Coordinator(Protocol):
    """The calls of a worker; `eventjobs.client.Client` tells what they mean."""

    async def lease(
        self,
        worker: str,
        *,
        max_jobs: int,
        lease_seconds: float,
        wait_seconds: float,
        queues: Sequence[str] | None,
        kinds: Sequence[str] | None,
        request_id: str,
    ) -> Sequence[Job]:
        """Up to `max_jobs` jobs; the same request id again gives the same jobs while they are held."""

    async def renew_many(self, renewals: Sequence[Renewal]) -> Sequence[ItemResult]:
        """One result for each lease, in order."""

    async def complete_many(self, completions: Sequence[Completion]) -> Sequence[ItemResult]:
        """One result for each job, in order."""

    async def fail_many(self, failures: Sequence[Failure]) -> Sequence[ItemResult]:
        """One result for each job, in order."""

    async def release(self, job_id: str, token: int) -> object:
        """Give one job back."""
