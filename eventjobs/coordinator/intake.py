"""The intake: jobs that producers asked for within transactions of their own are enqueued like any others.

A request is read, made into a command by the same rules as a request over HTTP, and decided by the handler; it leaves
the intake in the commit that appends the event, so it is done once, whatever breaks and however many coordinators look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from eventjobs.coordinator.handler import Handler
from eventjobs.coordinator.replies import Settled, Unavailable, UnknownOutcome
from eventjobs.domain.commands import Enqueue
from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.domain.limits import REASON_LENGTH_MAX
from eventjobs.store.contract import Needs, SharedReader

STEP_JOBS = 500
"""Requests of one step, so that workers' requests get their turn in between."""
STEP_BYTES = 8 << 20
"""Their payloads."""

log = structlog.get_logger("eventjobs.intake")

T = TypeVar("T")
Read = Callable[[Asked], Enqueue | NotEnqueued]
"""Makes the command of a request, under its id, or says what is wrong with it."""
Look = Callable[[Callable[[SharedReader], T]], Awaitable[T]]
Write = Callable[[Callable[[Handler], T], int, Needs], Awaitable[T]]


class Intake:
    """Takes requests in, a step at a time, while there are any. `taken` and `refused` count them since the start.

    `look` asks the store a question, `write` runs work in the next commit, `read` is how requests become commands.
    """

    def __init__(self, look: Look, write: Write, read: Read) -> None:
        self._look, self._write, self._read = look, write, read
        self._task: asyncio.Task | None = None
        self.taken = self.refused = 0

    def begin(self) -> None:
        """Something waits, as far as is known. What is left after a failure is taken when this is called again."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while asked := await self._look(lambda view: view.asked(STEP_JOBS, STEP_BYTES)):
                requests = [(each, self._read(each)) for each in asked]
                if not await self._step(requests):
                    return  # another coordinator has them in hand
        except Unavailable as error:
            if error.code != "shutting_down":
                log.warning("intake_put_off", reason=str(error))
        except UnknownOutcome:
            log.warning("intake_put_off", reason="it is not known what became of the last step")
        except Exception:
            log.exception("intake_failed")

    async def _step(self, requests: Sequence[tuple[Asked, Enqueue | NotEnqueued]]) -> bool:
        """Whether any of them was settled. One that cannot be must not stand in the way of the others."""
        try:
            return self._told(await self._settle(requests))
        except (Unavailable, UnknownOutcome):
            raise
        except Exception as error:
            if len(requests) > 1:
                return any([await self._step([request]) for request in requests])
            asked = requests[0][0]
            log.exception("request_failed", number=asked.number, job_id=asked.job_id)
            reason = f"the coordinator failed to handle it: {error}"[:REASON_LENGTH_MAX]
            failed = NotEnqueued("failed", ascii(reason)[1:-1])  # whatever it says, it can be stored
            return self._told(await self._settle([(asked, failed)]))

    async def _settle(self, requests: Sequence[tuple[Asked, Enqueue | NotEnqueued]]) -> list[Settled]:
        commands = [command for _, command in requests if isinstance(command, Enqueue)]
        keys = tuple(command.idempotency_key for command in commands if command.idempotency_key is not None)
        needs = Needs(
            keys=keys,
            asked=tuple((asked.number, asked.job_id) for asked, _ in requests),
        )
        size = sum(len(asked.text) for asked, _ in requests)
        return await self._write(lambda handler: handler.take_in(requests), size, needs)

    def _told(self, settled: list[Settled]) -> bool:
        for each in settled:
            if each.refusal is None:
                self.taken += 1
                continue
            self.refused += 1
            why = each.refusal
            facts = {"number": each.asked.number, "id": each.asked.job_id, "actor": each.asked.actor}
            log.warning("not_enqueued", **facts, code=why.code, reason=why.reason, job_id=why.job_id)
        return bool(settled)
