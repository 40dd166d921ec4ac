"""What real clients of a real coordinator saw has a legal order, whatever happens to the coordinator.

The store is on disk, the clients fight over a few jobs with short leases. Their moves are drawn from the seed that a
test's name ends with; who is faster is not.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from eventjobs.testing.histories.crowd import Crowd, Habits

PROFILES = {"quick": (1, 600, 3), "ci": (2, 2_000, 6), "deep": (20, 4_000, 12)}
"""By profile: seeds of each test, operations where nothing happens, and disturbances where something does."""
SEEDS, OPERATIONS, DISTURBANCES = PROFILES[os.environ.get("EVENTJOBS_PROFILE", "quick")]
BETWEEN = (60, 200)
"""Operations between two disturbances."""

seeds = pytest.mark.parametrize("seed", range(1, SEEDS + 1))


@seeds
async def test_undisturbed(coordinator, judge, seed):
    """Every job's history has a legal order, and the log says the same."""
    crowd = Crowd(coordinator.url, seed)
    await crowd.run(lambda crowd: crowd.recorded(OPERATIONS))
    expiries = await judge(crowd)
    outcomes = crowd.recorder.outcomes()
    assert expiries > 0, "no lease ran out"
    wanted = ("lease", "renew", "complete", "fail", "release", "requeue")
    assert all(outcomes[f"{name} answered"] for name in wanted), outcomes
    assert not any(name.endswith("lost") for name in outcomes), outcomes


@seeds
async def test_killed_and_restarted(coordinator, judge, seed):
    """Killed at any moment, the coordinator keeps what it acknowledged; what it did not say is done or not done."""
    chance = random.Random(seed)

    async def kill(crowd: Crowd) -> None:
        for _ in range(DISTURBANCES):
            await crowd.recorded(chance.randint(*BETWEEN))
            await asyncio.sleep(chance.uniform(0, 0.02))
            crowd.up.clear()
            coordinator.kill()
            await asyncio.to_thread(coordinator.restart)
            crowd.up.set()
        await crowd.recorded(BETWEEN[1])

    crowd = Crowd(coordinator.url, seed, Habits(clients=16, pause_seconds=(0, 0.002)))
    await crowd.run(kill)
    await judge(crowd)
    assert any(name.endswith("lost") for name in crowd.recorder.outcomes()), "no answer was lost"


@seeds
async def test_frozen_beyond_the_leases(coordinator, judge, seed):
    """While the coordinator stands still leases run out and clients give up; it goes on as if it knew.

    Requests that wait for it are done when it goes on, some after their clients have left.
    """
    chance = random.Random(seed)

    async def freeze(crowd: Crowd) -> None:
        for _ in range(DISTURBANCES):
            await crowd.recorded(chance.randint(*BETWEEN))
            coordinator.process.send(signal.SIGSTOP)
            over = crowd.recorder.now() + round(crowd.habits.lease_seconds[1] * 1_000_000)
            await crowd.until(lambda over=over: crowd.recorder.now() > over)
            coordinator.process.send(signal.SIGCONT)
        await crowd.recorded(BETWEEN[1])

    crowd = Crowd(coordinator.url, seed, Habits(clients=16, pause_seconds=(0, 0.002), patience_seconds=(0.1, 1)))
    await crowd.run(freeze)
    assert await judge(crowd) > 0, "no lease ran out"
    assert any(name.endswith("lost") for name in crowd.recorder.outcomes()), "nobody gave up"
