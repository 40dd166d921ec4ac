"""Repeating a request until it is answered, within a budget. Every request of the client is safe to repeat."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import stamina

from eventjobs.client.errors import Unavailable, Unreachable
from eventjobs.client.settings import Retry

T = TypeVar("T")

SPREAD = 0.25
"""By how much of itself a Retry-After is stretched at most, so that clients do not come back all at once."""


async def repeated(request: Callable[[], Awaitable[T]], retry: Retry) -> T:
    """The answer to a request that is sent again while it is worth it. Raises what the last attempt raised."""
    if retry.attempts == 1:
        return await request()
    attempts = stamina.retry_context(
        on=_pause_before_repeating,
        attempts=retry.attempts,
        timeout=retry.seconds,
        wait_initial=retry.first_wait_seconds,
        wait_max=retry.longest_wait_seconds,
        wait_jitter=retry.first_wait_seconds,
    )
    async for attempt in attempts:
        with attempt:
            answer = await request()
    return answer


def _pause_before_repeating(error: Exception) -> bool | float:
    """Whether to repeat after an error; a number says after how many seconds."""
    if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
        return error.retry_after_seconds * (1 + SPREAD * random.random())
    return isinstance(error, Unavailable | Unreachable)
