"""Living through an outage: asking until there is an answer, and saying once that the coordinator is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from eventjobs.client.errors import BadAnswer, EventjobsError, Refused, Unavailable, Unreachable

T = TypeVar("T")

PAUSE_FIRST_SECONDS = 0.1
PAUSE_LONGEST_SECONDS = 5.0
ASKED_LONGEST_SECONDS = 10.0
"""The longest Retry-After that is heeded: a third of a lease's usual length, so that none is lost for it."""
ASKED_SPREAD = 0.25
"""By how much of itself a Retry-After is stretched at most, so that workers do not come back all at once."""


def is_away(error: EventjobsError) -> bool:
    """Whether an error means that the coordinator is away for now, and not that it has spoken.

    An answer that is no coordinator's counts: while one is replaced, a gateway in front of it may say anything.
    """
    if isinstance(error, Unreachable | BadAnswer | Unavailable):
        return True
    return isinstance(error, Refused) and error.status >= 500


class Outage:
    """The worker's view of whether the coordinator answers; shared by all that ask it."""

    def __init__(self, rng: random.Random, log: structlog.typing.FilteringBoundLogger) -> None:
        self._rng = rng
        self._log = log
        self._since: float | None = None

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, after as many attempts as it takes. Raises Refused when the coordinator says no, and
        InvalidValue when what is to be said cannot be sent.
        """
        failures = 0
        while True:
            try:
                answer = await ask()
            except EventjobsError as error:
                if not is_away(error):
                    if isinstance(error, Refused):  # unlike a value that could not be sent at all
                        self._answered()
                    raise
                self._not_answered(error)
                await asyncio.sleep(self.pause_seconds(failures, error))
                failures += 1
            else:
                self._answered()
                return answer

    def pause_seconds(self, failures: int, error: EventjobsError | None = None) -> float:
        """How long to wait after so many failures before this one: doubling with jitter, not before a Retry-After."""
        bound = min(PAUSE_LONGEST_SECONDS, PAUSE_FIRST_SECONDS * 2 ** min(failures, 10))
        pause = bound * self._rng.uniform(0.5, 1.0)
        if not isinstance(error, Unavailable) or error.retry_after_seconds is None:
            return pause
        asked = min(error.retry_after_seconds, ASKED_LONGEST_SECONDS)
        return max(pause, asked * self._rng.uniform(1.0, 1.0 + ASKED_SPREAD))

    def _not_answered(self, error: EventjobsError) -> None:
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            self._log.warning("coordinator_unreachable", error=str(error))

    def _answered(self) -> None:
        if self._since is not None:
            away = asyncio.get_running_loop().time() - self._since
            self._since = None
            self._log.info("coordinator_answers_again", away_seconds=round(away, 3))
