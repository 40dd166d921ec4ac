"""Repeating a request until it is answered, within a budget.

Most requests of the client are safe to repeat: a second time has no effect of its own. Those that are not go out
again only while it is known that nothing was done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from eventjobs.client.errors import Unavailable, Unreachable
from eventjobs.client.settings import Retry

T = TypeVar("T")

SPREAD = 0.25
"""By how much of itself a Retry-After is stretched at most, so that clients do not come back all at once."""
DOUBLINGS_MAX = 30
TURNED_AWAY = "overloaded"
"""The code of a refusal at the door. Another refusal for now may leave open what was done."""

_log = structlog.get_logger("eventjobs.client")


async def repeated(request: Callable[[], Awaitable[T]], retry: Retry, *, safe: bool = True) -> T:
    """The answer to a request that is sent again while it is worth it. Raises what the last attempt raised.

    One that is not `safe` to repeat is not sent again once it may have been carried out. The log is told of the
    first repeat, and of no other.
    """
    clock = asyncio.get_running_loop().time
    ends = float("inf") if retry.seconds is None else clock() + retry.seconds
    attempts = 0
    while True:
        try:
            return await request()
        except (Unavailable, Unreachable) as error:
            attempts += 1
            left = ends - clock()
            if attempts == retry.attempts or left <= 0 or not (safe or _was_not_done(error)):
                raise
            if attempts == 1:
                _log.warning("request_repeated", error=str(error), **_bounds(retry))
            pause = min(_pause_seconds(error, attempts, retry), left)
        await asyncio.sleep(pause)


def _bounds(retry: Retry) -> dict[str, float]:
    """How long or how often it is tried, as far as there is a bound."""
    bounds = {"trying_for_seconds": retry.seconds, "attempts_at_most": retry.attempts}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _was_not_done(error: Unavailable | Unreachable) -> bool:
    return error.code == TURNED_AWAY if isinstance(error, Unavailable) else not error.sent


def _pause_seconds(error: Unavailable | Unreachable, attempts: int, retry: Retry) -> float:
    """How long to wait after so many attempts: as the coordinator asked, or else doubling, with jitter."""
    if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
        return error.retry_after_seconds * (1 + SPREAD * random.random())
    grown = retry.first_wait_seconds * (2 ** min(attempts - 1, DOUBLINGS_MAX) + random.random())
    return min(retry.longest_wait_seconds, grown)
