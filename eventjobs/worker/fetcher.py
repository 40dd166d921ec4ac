"""Fetches jobs: one request at a time, for at most as many as there are free slots."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from attrs import define

from eventjobs.client.answers import Job
from eventjobs.client.errors import Refused, Unreachable
from eventjobs.domain.limits import NO_KIND
from eventjobs.worker.contract import Coordinator
from eventjobs.worker.holdings import Holdings
from eventjobs.worker.outage import Outage
from eventjobs.worker.settings import Settings

EARLY_FRACTION = 0.5
"""An empty answer before this part of the wait is over came early: the next request waits a little."""


@define
class Request:
    """A request for jobs. It keeps its id until it is answered, so that a lost answer loses no grant."""

    id: str
    max_jobs: int
    kinds: Sequence[str]
    attempts: int = 0


class Fetcher:
    """Leases jobs and starts them, by long-polls."""

    def __init__(
        self,
        coordinator: Coordinator,
        holdings: Holdings,
        settings: Settings,
        worker: str,
        kinds: Sequence[str],
        outage: Outage,
        rng: random.Random,
    ) -> None:
        self._coordinator = coordinator
        self._holdings = holdings
        self._settings = settings
        self._worker = worker
        self._kinds = kinds
        self._outage = outage
        self._prefix = f"{rng.getrandbits(64):016x}"  # the worker's name alone may come again in another process
        self._number = 0
        self._unanswered: Request | None = None

    async def run(self, start: Callable[[Job], None], renew_soon: Callable[[], None]) -> None:
        """Fetch and start jobs until canceled. Raises Refused when the coordinator will not serve this worker."""
        loop = asyncio.get_running_loop()
        early = 0
        while True:
            while self._holdings.free_slots <= 0:
                await self._holdings.changed()
            request = self._unanswered = self._next_request()
            asked_at = loop.time()
            jobs = await self._answer(request, self._settings.wait_seconds)
            # nothing was awaited since the answer came: a cut cannot fall between it and the start of the jobs
            for job in jobs:
                start(job)
            if jobs and request.attempts > 1:
                renew_soon()  # granted to an attempt whose answer was lost: part of the lease is over already
            in_time = loop.time() - asked_at >= EARLY_FRACTION * self._settings.wait_seconds > 0
            if jobs or in_time or request.attempts > 1:
                early = 0
            else:
                await asyncio.sleep(self._outage.pause_seconds(early))
                early += 1

    async def recover(self) -> Sequence[Job]:
        """The jobs that were granted to a request whose answer was cut off or lost; for handing them back.

        The request is repeated without waiting, and for a kind that no job has: what was granted is given again
        whatever the repeat asks for, and nothing is taken if it was never carried out. The coordinator takes it for a
        goodbye.
        """
        request = self._unanswered
        if request is None:
            return ()
        request.kinds = (NO_KIND,)
        return await self._answer(request, 0.0)

    def _next_request(self) -> Request:
        self._number += 1
        return Request(f"{self._prefix}-{self._number}", self._holdings.free_slots, self._kinds)

    async def _answer(self, request: Request, wait_seconds: float) -> Sequence[Job]:
        """The answer to a request, in however many tries. A refusal is one; a cancellation leaves it unanswered."""
        try:
            jobs = await self._outage.insist(lambda: self._ask(request, wait_seconds))
        except Refused:
            self._unanswered = None
            raise
        self._unanswered = None
        return jobs

    async def _ask(self, request: Request, wait_seconds: float) -> Sequence[Job]:
        """One attempt. A repeat does not wait: if its grants came and went in an outage, it would wait in vain. What
        was never sent, to a coordinator that is still to be started say, was granted nothing and is no attempt."""
        request.attempts += 1
        try:
            return await self._coordinator.lease(
                self._worker,
                max_jobs=request.max_jobs,
                lease_seconds=self._settings.lease_seconds,
                wait_seconds=wait_seconds if request.attempts == 1 else 0.0,
                queues=self._settings.queues,
                kinds=request.kinds,
                request_id=request.id,
            )
        except Unreachable as error:
            if not error.sent:
                request.attempts -= 1
            raise
