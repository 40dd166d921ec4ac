"""Lease requests under way. Those of one id that are under way at the same time get one answer.

A client that lost a connection asks again under the same id, and the coordinator may not know yet that nobody reads
the first one's answer. Answered each by itself, the repeat could be told that there is nothing, and a moment later the
first one be given a job that nobody hears of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from eventjobs.coordinator.replies import Unavailable
from eventjobs.coordinator.waiters import Waiter
from eventjobs.domain.job import Job


class LeaseRequest:
    """A request while it is worked on. `deadline` is a time of the event loop; repeats may bring it forward."""

    def __init__(self, waiter: Waiter, deadline: float, still_wanted: Callable[[], bool]) -> None:
        self.waiter = waiter
        self.deadline = deadline
        self._callers = [still_wanted]
        self._repeats: list[asyncio.Future[list[Job]]] = []

    def still_wanted(self) -> bool:
        """Whether anybody waits for the answer."""
        return any(wanted() for wanted in self._callers)

    async def answer(self, deadline: float, still_wanted: Callable[[], bool]) -> list[Job]:
        """The answer to a repeat: that of the request, at `deadline` at the latest."""
        repeat = asyncio.get_running_loop().create_future()
        self._repeats.append(repeat)
        self._callers.append(still_wanted)
        if deadline < self.deadline:
            self.deadline = deadline
            self.waiter.look_again()
        return await repeat

    def answered(self, jobs: list[Job]) -> None:
        """Give the repeats the answer."""
        for repeat in self._waiting():
            repeat.set_result(jobs)

    def failed(self, error: BaseException) -> None:
        """Tell the repeats why there is no answer."""
        if isinstance(error, asyncio.CancelledError):
            error = Unavailable("shutting_down", "the request was given up; ask again")
        for repeat in self._waiting():
            repeat.set_exception(error)

    def _waiting(self) -> list[asyncio.Future[list[Job]]]:
        return [repeat for repeat in self._repeats if not repeat.done()]
