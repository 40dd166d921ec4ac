"""How long the worker waits before it asks again."""

from __future__ import annotations

import asyncio
import random

import pytest

from eventjobs.client import Problem, Unavailable, Unreachable
from eventjobs.worker.outage import ASKED_LONGEST_SECONDS, PAUSE_LONGEST_SECONDS, Outage


def _outage(seed: int) -> Outage:
    return Outage(random.Random(seed), None)


async def _nothing(job):
    """A handler that returns at once."""


def _not_now(seconds: float | None) -> Unavailable:
    return Unavailable(Problem(code="overloaded", status=503), seconds)


@pytest.mark.parametrize("asked", [1.0, 3.0, 7.0])
def test_a_retry_after_is_heeded(asked):
    """Nobody comes back before it, and not all at once after it."""
    pauses = {_outage(seed).pause_seconds(0, _not_now(asked)) for seed in range(200)}
    assert min(pauses) >= asked
    assert max(pauses) <= asked * 1.25
    assert len(pauses) > 100


def test_a_retry_after_does_not_shorten_the_own_pause():
    """After many failures the worker is calmer than it is asked to be."""
    pauses = [_outage(seed).pause_seconds(20, _not_now(1.0)) for seed in range(200)]
    assert PAUSE_LONGEST_SECONDS / 2 <= min(pauses) <= max(pauses) <= PAUSE_LONGEST_SECONDS


def test_a_retry_after_is_bounded():
    """The leases must be renewed in time once the coordinator is back."""
    pauses = [_outage(seed).pause_seconds(0, _not_now(86_400.0)) for seed in range(200)]
    assert max(pauses) <= ASKED_LONGEST_SECONDS * 1.25


@pytest.mark.parametrize("error", [None, Unreachable("nobody there"), _not_now(None)])
def test_without_a_retry_after_the_pause_doubles(error):
    """From a tenth of a second to five, each with jitter below."""
    for failures, bound in ((0, 0.1), (1, 0.2), (5, 3.2), (6, 5.0), (5_000, 5.0)):
        pauses = [_outage(seed).pause_seconds(failures, error) for seed in range(50)]
        assert bound / 2 <= min(pauses) <= max(pauses) <= bound


def test_the_worker_asks_again_when_it_was_told_to(play):
    """The header reaches the pause between two requests."""

    async def scene(stage):
        times = []

        def refuse(asked):
            times.append(asyncio.get_running_loop().time())
            return _not_now(4.0) if len(times) == 1 else None

        stage.worker.handler("work")(_nothing)
        stage.coordinator.refuse["lease"] = refuse
        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert 4.0 <= times[1] - times[0] <= 5.0

    play(scene)
