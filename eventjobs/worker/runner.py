"""Runs one handler and says how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from eventjobs.client.answers import Job
from eventjobs.client.requests import Completion, Failure
from eventjobs.worker.context import JobContext
from eventjobs.worker.handlers import Handler, Handlers
from eventjobs.worker.holdings import Held, Holdings
from eventjobs.worker.outcomes import completion, failure, own_part
from eventjobs.worker.threads import Threads


class Runner:
    """Starts handlers, each in a task of its own, and hands their outcomes on."""

    def __init__(
        self,
        handlers: Handlers,
        holdings: Holdings,
        settle: Callable[[Held], None],
        log: structlog.typing.FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._handlers = handlers
        self._holdings = holdings
        self._settle = settle
        self._log = log
        self._clock = clock
        self._threads = Threads()

    def start(self, job: Job) -> None:
        """Run the handler for a job that was just leased."""
        handler = self._handlers.of(job.kind)
        loop = asyncio.get_running_loop()
        held = Held(JobContext(job), handler.is_async)
        self._holdings.add(held)
        held.task = loop.create_task(self._run(held, handler), name=f"eventjobs-job-{job.id}")
        held.task.add_done_callback(lambda task: self._ended(held, task))

    def close(self) -> None:
        """Let the threads end once their handlers have."""
        self._threads.close()

    def _ended(self, held: Held, task: asyncio.Task) -> None:
        self._holdings.ended(held)
        if not task.cancelled() and task.exception() is not None:
            # our own fault: the job is not kept from those who can run it, its lease will run out
            self._holdings.remove(held)
            self._log.error("runner_broken", **held.describe(), exc_info=task.exception())

    async def _run(self, held: Held, handler: Handler) -> None:
        started = self._clock()
        self._log.debug("job_started", **held.describe())
        outcome = await self._outcome(held, handler)
        held.duration = self._clock() - started
        if held.job.canceled:
            self._log.warning("outcome_dropped", **held.describe(), duration=round(held.duration, 6))
            return
        held.outcome = outcome
        self._settle(held)

    async def _outcome(self, held: Held, handler: Handler) -> Completion | Failure:
        job = held.job
        try:
            if handler.is_async:
                value = await handler.function(job)
            else:
                end = await self._threads.run(handler.function, job)
                if end.error is not None:
                    return self._failure(held, end.error)
                value = end.value
        except asyncio.CancelledError as error:
            if job.canceled:
                raise
            return self._failure(held, error)  # from inside the handler: nobody asked this job to stop
        except GeneratorExit:
            raise  # the event loop is gone
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is the job's failure
            return self._failure(held, error)
        return completion(job, value)

    def _failure(self, held: Held, error: BaseException) -> Failure:
        self._log.debug("handler_raised", **held.describe(), exc_info=own_part(error))
        return failure(held.job, error)
