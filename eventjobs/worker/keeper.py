"""Keeps what is held: renews every lease in time, and stops the handlers of those that are lost."""

from __future__ import annotations

import asyncio

import structlog

from eventjobs.client.answers import ItemResult
from eventjobs.client.errors import Refused
from eventjobs.client.requests import Renewal
from eventjobs.domain.limits import BATCH_JOBS_MAX
from eventjobs.worker.contract import Coordinator
from eventjobs.worker.holdings import Held, Holdings
from eventjobs.worker.outage import Outage
from eventjobs.worker.refusals import CANCELED, is_canceled
from eventjobs.worker.settings import Settings

BLOCKED = "a handler blocked the worker's event loop, or the whole process stood still: no lease was renewed meanwhile"
ADVICE = "make a handler that blocks a plain function (`def`): it runs in a thread"


class Keeper:
    """Renews everything held each third of the lease, in as few requests as possible.

    That includes jobs whose handlers wait for their turn and jobs whose outcomes are not acknowledged yet. While the
    coordinator is away handlers go on, even past their leases: only the coordinator can say that a lease is lost.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        holdings: Holdings,
        settings: Settings,
        outage: Outage,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._coordinator = coordinator
        self._holdings = holdings
        self._lease_seconds = settings.lease_seconds
        self._period = settings.renew_seconds
        self._outage = outage
        self._log = log
        self._hurry = asyncio.Event()

    def renew_soon(self) -> None:
        """Do not wait for the period to end: some of what is held may be older than this worker knows."""
        self._hurry.set()

    async def run(self) -> None:
        """Renew until canceled."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._period
        while True:
            due_or_now = max(due, loop.time())  # in an outage the last round took longer than its period
            await self._until(due)
            late = loop.time() - due_or_now
            if late > self._period:
                seconds = {"late_seconds": round(late, 3), "lease_seconds": self._lease_seconds}
                self._log.warning("keeper_late", **seconds, reason=BLOCKED, advice=ADVICE)
            due = loop.time() + self._period
            await self._renew_all()

    async def _until(self, due: float) -> None:
        try:
            async with asyncio.timeout_at(due):
                await self._hurry.wait()
        except TimeoutError:
            return
        self._hurry.clear()

    async def _renew_all(self) -> None:
        everything = list(self._holdings)
        for start in range(0, len(everything), BATCH_JOBS_MAX):
            batch = everything[start : start + BATCH_JOBS_MAX]
            try:
                answers = await self._outage.insist(lambda batch=batch: self._renew(batch))
            except Refused as refusal:
                self._log.error("renewals_refused", code=refusal.code, reason=str(refusal), jobs=len(batch))
                continue
            for held, result in answers:
                if not result.ok:
                    self._refused(held, result)

    async def _renew(self, batch: list[Held]) -> list[tuple[Held, ItemResult]]:
        """One request for those of the batch that are still held."""
        still_held = [held for held in batch if held in self._holdings]
        if not still_held:
            return []
        renewals = [Renewal(held.job.id, held.job.token) for held in still_held]
        return list(zip(still_held, await self._coordinator.renew_many(renewals), strict=True))

    def _refused(self, held: Held, result: ItemResult) -> None:
        """The lease is lost, unless the job has just been settled or is about to be: the answer to that decides."""
        if held not in self._holdings or held.outcome is not None:
            return
        self._holdings.remove(held)
        held.cancel()
        if is_canceled(result.problem):
            self._log.info("lease_over", **held.describe(), reason=CANCELED)
        else:
            said = {"code": result.problem.code, "reason": result.problem.detail}
            self._log.warning("lease_lost", **held.describe(), **said)
