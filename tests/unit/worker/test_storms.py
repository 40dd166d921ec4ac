"""Two workers through storms that a seed makes: outages, lost answers, cancelations, blocked loops, failing handlers.

When the storm is over every job comes to an end, ends once, and nobody held more than was allowed.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from eventjobs import GiveUp, RetryIn, Worker

STORM_SECONDS = 300
CALM_SECONDS = 1_200
CONCURRENCY = 4
LEASE_SECONDS = 6
ENDS = ("succeeded", "dead", "canceled")


@pytest.mark.parametrize("seed", range(40))
def test_after_the_storm_every_job_has_ended_once(play, seed):
    """See the module's text."""

    async def scene(stage):
        chance = random.Random(seed)
        coordinator = stage.coordinator
        running: dict[str, int] = {}
        workers = [_worker(coordinator, name, chance, running) for name in ("one", "two")]
        serving = [asyncio.create_task(worker.serve()) for worker in workers]
        storm = asyncio.create_task(_storm(coordinator, chance))
        rows = []
        for number in range(60):
            rows.append(coordinator.add("work", number))
            await asyncio.sleep(chance.expovariate(1 / 4))
        await storm
        async with asyncio.timeout(CALM_SECONDS):
            await coordinator.until(lambda: all(row.state in ENDS for row in rows))
        for worker in workers:
            await worker.stop()
        await asyncio.gather(*serving)
        for row in rows:
            ends = [word for word in row.log if word in ("completed", "canceled")]
            assert len(ends) + (row.state == "dead") == 1, (row, row.log)
            if row.state == "succeeded":
                assert bytes(row.result) == b'{"number":%s,"token":%d}' % (row.payload, row.token)
        assert running == {"one": 0, "two": 0}
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(scene)


def _worker(coordinator, name, chance, running):
    worker = Worker(
        coordinator,
        name=name,
        concurrency=CONCURRENCY,
        lease_seconds=LEASE_SECONDS,
        grace_seconds=1,
        rng=random.Random(chance.random()),
    )
    running[name] = 0

    @worker.handler("work")
    async def work(job):
        running[name] += 1
        assert running[name] <= CONCURRENCY
        try:
            await asyncio.sleep(chance.expovariate(1 / 5))
            fate = chance.random()
            if fate < 0.05:
                asyncio.get_running_loop().advance(chance.uniform(1, 10))  # it blocks the loop
            elif fate < 0.10:
                raise GiveUp("enough")
            elif fate < 0.20:
                raise RetryIn(chance.uniform(0, 20))
            elif fate < 0.30:
                raise ValueError("broken")
            return {"number": job.payload, "token": job.token}
        finally:
            running[name] -= 1

    return worker


async def _storm(coordinator, chance):
    loop = asyncio.get_running_loop()
    end = loop.time() + STORM_SECONDS
    while loop.time() < end:
        await asyncio.sleep(chance.expovariate(1 / 3))
        fate = chance.random()
        if fate < 0.3:
            coordinator.down = True
            await asyncio.sleep(chance.choice([0.05, 1, LEASE_SECONDS, 3 * LEASE_SECONDS]))
            coordinator.down = False
        elif fate < 0.9:
            coordinator.lose[chance.choice(["lease", "renew", "complete", "fail"])] += chance.randrange(1, 4)
        elif waiting := [row for row in coordinator.rows.values() if row.state not in ENDS]:
            coordinator.cancel(chance.choice(waiting))
