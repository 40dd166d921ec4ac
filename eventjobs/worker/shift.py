"""One shift of a worker: from start to stop, with everything handed over at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import structlog

from eventjobs.client.errors import Refused
from eventjobs.worker.context import JobContext
from eventjobs.worker.contract import Coordinator
from eventjobs.worker.fetcher import Fetcher
from eventjobs.worker.handlers import Handlers
from eventjobs.worker.holdings import Held, Holdings
from eventjobs.worker.keeper import Keeper
from eventjobs.worker.outage import Outage
from eventjobs.worker.runner import Runner
from eventjobs.worker.settings import STOP_CANCEL_SECONDS, STOP_SEND_SECONDS, Settings
from eventjobs.worker.settler import Settler

RELEASES_AT_ONCE = 16
JOBS_SHOWN_MAX = 20
"""Running jobs that the log line of a stop names."""
SECOND_SIGNAL = "ends it at once; its jobs wait until their leases run out"


class Shift:
    """Fetcher, keeper, settler and runner around one set of held jobs."""

    def __init__(
        self,
        coordinator: Coordinator,
        handlers: Handlers,
        settings: Settings,
        worker: str,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._kinds = handlers.kinds
        self._log = log = structlog.get_logger("eventjobs.worker").bind(worker=worker)
        self._outage = outage = Outage(rng, log)
        self._holdings = holdings = Holdings(settings.concurrency)
        self._keeper = Keeper(coordinator, holdings, settings, outage, log)
        self._settler = Settler(coordinator, holdings, outage, log)
        self._runner = Runner(handlers, holdings, self._settler.settle, log, clock)
        self._fetcher = Fetcher(coordinator, holdings, settings, worker, handlers.kinds, outage, rng)
        self._releases = asyncio.Semaphore(RELEASES_AT_ONCE)

    async def work(self, stop: asyncio.Event, by_signal: Callable[[], bool]) -> None:
        """Run jobs until `stop` is set, then let handlers finish and hand back what is left.

        `by_signal` says, once it stops, whether a signal made it: then another one would end the process.
        Raises Refused when the coordinator will not serve this worker, after the same handing over.
        """
        if stop.is_set():
            return
        self._log_start()
        fetching = asyncio.create_task(self._fetcher.run(self._runner.start, self._keeper.renew_soon))
        services = [asyncio.create_task(self._keeper.run()), asyncio.create_task(self._settler.run())]
        stopping = asyncio.create_task(stop.wait())
        tasks = [fetching, stopping, *services]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await _end(fetching, stopping)
            if not any(service.done() for service in services):
                await self._hand_over(_error_of(fetching), by_signal())
        finally:
            handlers = [held.task for held in self._holdings.running]
            for held in self._holdings.running:
                held.abandon()
            self._runner.close()
            await _end(*tasks, *handlers, seconds=STOP_CANCEL_SECONDS)
            self._log.info("worker_stopped", held=len(list(self._holdings)))
        for task in tasks:
            if (error := _error_of(task)) is not None:
                raise error

    async def _hand_over(self, error: BaseException | None, by_signal: bool) -> None:
        """Let handlers finish for the time of grace, cancel those that do not, and release what they held."""
        running = len(self._holdings.running)
        if error is not None:
            self._log.error("worker_refused", reason=str(error), running=running)
        self._log_stop(by_signal)
        recovering = asyncio.create_task(self._give_back_unanswered())
        await self._handlers_end(self._settings.grace_seconds)
        for held in self._holdings.running:
            held.cancel()
        await self._handlers_end(STOP_CANCEL_SECONDS)
        left = [held for held in self._holdings if held.outcome is None]
        with suppress(TimeoutError):  # what could not be sent in time is left to its lease; the last line counts it
            async with asyncio.timeout(STOP_SEND_SECONDS):
                await asyncio.gather(recovering, self._everything_settled(), *map(self._release, left))

    async def _handlers_end(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._holdings.running:
                    await self._holdings.changed()

    async def _everything_settled(self) -> None:
        while self._holdings.unsettled:
            await self._holdings.changed()

    async def _give_back_unanswered(self) -> None:
        """Release the jobs of a request for jobs that was cut off, or whose answer was lost."""
        try:
            jobs = await self._fetcher.recover()
        except Refused as refusal:
            self._log.warning("recovery_refused", code=refusal.code)
            return
        await asyncio.gather(*(self._release(Held(JobContext(job))) for job in jobs))

    async def _release(self, held: Held) -> None:
        job = held.job
        async with self._releases:
            try:
                await self._outage.insist(lambda: self._coordinator.release(job.id, job.token))
            except Refused as refusal:
                self._log.warning("release_refused", **held.describe(), code=refusal.code)
            else:
                self._log.info("job_released", **held.describe())
        self._holdings.remove(held)

    def _log_stop(self, by_signal: bool) -> None:
        running = sorted(f"{held.job.kind} {held.job.id}" for held in self._holdings.running)
        self._log.info(
            "worker_stopping",
            running=len(running),
            grace_seconds=self._settings.grace_seconds,
            jobs=running[:JOBS_SHOWN_MAX],
            **({"second_signal": SECOND_SIGNAL} if by_signal else {}),
        )

    def _log_start(self) -> None:
        settings = self._settings
        self._log.info(
            "worker_started",
            kinds=list(self._kinds),
            queues=settings.queues and list(settings.queues),
            concurrency=settings.concurrency,
            lease_seconds=settings.lease_seconds,
        )


async def _end(*tasks: asyncio.Task, seconds: float | None = None) -> None:
    """Cancel tasks and wait until they have ended, for so long at most."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


def _error_of(task: asyncio.Task) -> BaseException | None:
    """What ended the task, unless it was canceled, ended well or goes on."""
    return task.exception() if task.done() and not task.cancelled() else None
