"""Driving an engine with the coordinator's own handler, one commit a call.

For tests of engines, tools and whatever else needs a store with something in it. It has none of the coordinator's
waiting, sharing of commits or timers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.coordinator.replies import BatchRejected
from eventjobs.domain.commands import Command, Enqueue, Lease
from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Rejection
from eventjobs.store.contract import Engine

T = TypeVar("T")


class Driver:
    """Sends commands to an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def execute(self, *commands: Command) -> list[Job | Rejection]:
        """Each command but a lease decided in order, on the state the ones before it left; one commit."""
        return self._committed(lambda handler, _: [_answer(handler, command) for command in commands])

    def enqueue_batch(self, commands: Sequence[Enqueue]) -> list[Job] | BatchRejected:
        """All of the jobs or none, as one request."""
        replies = self._committed(lambda handler, _: handler.enqueue(commands))
        return replies if isinstance(replies, BatchRejected) else [reply.job for reply in replies]

    def lease(
        self, command: Lease, queues: Sequence[str] | None = None, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Job]:
        """Lease up to `limit` jobs; a request id that is remembered gives its grants that are still held."""
        return self._committed(lambda handler, _: handler.lease(command, queues, kinds, limit).jobs)

    def expire(self, now: int, limit: int = 1_000) -> list[Job]:
        """What the rescuer does: every lease that ran out becomes an event."""

        def work(handler: Handler, effects: Effects) -> list[Job]:
            handler.expire(now, limit)
            return [after for _, _, after in effects.appended]

        return self._committed(work)

    def _committed(self, work: Callable[[Handler, Effects], T]) -> T:
        effects = Effects()
        handler = Handler(self.engine.begin(), effects)
        try:
            answer = work(handler, effects)
        except BaseException:
            self.engine.abort()
            raise
        self.engine.commit()
        return answer


def _answer(handler: Handler, command: Command) -> Job | Rejection:
    if not isinstance(command, Enqueue):
        return handler.execute([command])[0]
    replies = handler.enqueue([command])
    return replies.rejection if isinstance(replies, BatchRejected) else replies[0].job
