"""kill -9 of the coordinator under load: what was acknowledged is there, what was refused is not, the rest is told."""

from __future__ import annotations

import asyncio
import random

from eventjobs.testing.ledger import Crowd, crowd_at

ACKNOWLEDGED_PER_ROUND = (100, 300)
"""How much is acknowledged between two kills, at least and at most."""


async def killed_again_and_again(coordinator, crowd: Crowd, rounds: int) -> None:
    chance = random.Random(rounds)
    for _ in range(rounds):
        await crowd.grown_by(chance.randint(*ACKNOWLEDGED_PER_ROUND))
        coordinator.kill()
        crowd.up.clear()
        await asyncio.to_thread(coordinator.restart)
        crowd.up.set()
    await crowd.grown_by(ACKNOWLEDGED_PER_ROUND[0])


async def test_nothing_acknowledged_is_lost_when_the_coordinator_is_killed(coordinator, rounds, judge):
    """Clients that ask again after each kill end with a ledger that the log confirms to the last entry."""
    async with crowd_at(coordinator.url) as crowd:
        await killed_again_and_again(coordinator, crowd, rounds)
    assert crowd.unanswered > 0, "no request was ever under way when the coordinator was killed"
    assert crowd.refusals > 0
    coordinator.stop()
    judge(crowd, coordinator.data)
