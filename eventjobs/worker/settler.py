"""Sends outcomes: at once when nothing is on its way, together when they gathered while a request was."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog

from eventjobs.client.answers import ItemResult
from eventjobs.client.errors import InvalidValue, Refused
from eventjobs.client.requests import Completion, Failure
from eventjobs.domain.limits import BATCH_JOBS_MAX
from eventjobs.worker.contract import Coordinator
from eventjobs.worker.holdings import Held, Holdings
from eventjobs.worker.outage import Outage
from eventjobs.worker.outcomes import refused_result, size_of
from eventjobs.worker.refusals import CANCELED, is_canceled
from eventjobs.worker.settings import SETTLE_BYTES_MAX

REASON_LENGTH_MAX = 300
"""Characters of an error's message in a log line; all of it is with the job."""

UNSENDABLE = "invalid_value"
"""The code, in the log, of an outcome that never reached the coordinator because it has no JSON."""

Send = Callable[[Sequence[Completion] | Sequence[Failure]], Awaitable[Sequence[ItemResult]]]


class Settler:
    """Two sendings, one for completions and one for failures, so that neither waits for the other."""

    def __init__(
        self,
        coordinator: Coordinator,
        holdings: Holdings,
        outage: Outage,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._holdings = holdings
        self._log = log
        self._completions = Sending(coordinator.complete_many, outage, self._settled, self._refused)
        self._failures = Sending(coordinator.fail_many, outage, self._settled, self._refused)

    def settle(self, held: Held) -> None:
        """Send the outcome of a job soon. The job is held until the coordinator has answered."""
        sending = self._completions if isinstance(held.outcome, Completion) else self._failures
        sending.put(held)

    async def run(self) -> None:
        """Send until canceled."""
        async with asyncio.TaskGroup() as sendings:
            sendings.create_task(self._completions.run())
            sendings.create_task(self._failures.run())

    def _settled(self, held: Held, result: ItemResult) -> None:
        self._holdings.remove(held)
        said = {**held.describe(), "duration": round(held.duration, 6)}
        if not result.ok:
            # the fence at work: the lease was over, and whoever has the job now is not disturbed
            problem = result.problem
            if is_canceled(problem):
                self._log.info("outcome_refused", **said, code=problem.code, reason=CANCELED)
            else:
                self._log.warning("outcome_refused", **said, code=problem.code, reason=problem.detail)
        elif isinstance(held.outcome, Completion):
            self._log.info("job_completed", **said, outcome=result.state)
        else:
            error = held.outcome.error
            said |= {"error": error["type"], "reason": error["message"][:REASON_LENGTH_MAX]}
            self._log.warning("job_failed", **said, outcome=result.state)

    def _refused(self, held: Held, refusal: Refused | InvalidValue) -> None:
        """The outcome is not taken, or cannot be sent, as it is. A result becomes a failure that says so."""
        code = refusal.code if isinstance(refusal, Refused) else UNSENDABLE
        self._log.error("outcome_invalid", **held.describe(), code=code, reason=str(refusal))
        if isinstance(held.outcome, Completion):
            held.outcome = refused_result(held.outcome, str(refusal))
            self.settle(held)
        else:
            self._holdings.remove(held)  # its lease will run out


class Sending:
    """Outcomes of one sort, in order, one request at a time."""

    def __init__(
        self,
        send: Send,
        outage: Outage,
        settled: Callable[[Held, ItemResult], None],
        refused: Callable[[Held, Refused | InvalidValue], None],
    ) -> None:
        self._send = send
        self._outage = outage
        self._settled = settled
        self._refused = refused
        self._waiting: deque[Held] = deque()
        self._filled = asyncio.Event()

    def put(self, held: Held) -> None:
        """Send this one with the next request."""
        self._waiting.append(held)
        self._filled.set()

    async def run(self) -> None:
        """Send until canceled."""
        while True:
            await self._filled.wait()
            await self._deliver(self._take())
            if not self._waiting:
                self._filled.clear()

    def _take(self) -> list[Held]:
        """What waits, as much as fits one request, but at least one."""
        batch = [self._waiting.popleft()]
        size = size_of(batch[0].outcome)
        while self._waiting and len(batch) < BATCH_JOBS_MAX:
            size += size_of(self._waiting[0].outcome)
            if size > SETTLE_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: list[Held]) -> None:
        """Send until there is an answer.

        A batch that is refused whole, or cannot be sent, is halved until the culprit stands alone.
        """
        outcomes = [held.outcome for held in batch]
        try:
            results = await self._outage.insist(lambda: self._send(outcomes))
        except (Refused, InvalidValue) as refusal:
            if len(batch) == 1:
                self._refused(batch[0], refusal)
                return
            middle = len(batch) // 2
            await self._deliver(batch[:middle])
            await self._deliver(batch[middle:])
            return
        for held, result in zip(batch, results, strict=True):
            self._settled(held, result)
