"""What clients of several coordinators of one database saw has a legal order, whatever happens to some of them.

The clients ask the coordinators in turn, a repeat of a request another than the first. The parts and the profiles are
those of test_histories.py.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventjobs.testing.histories.crowd import Crowd, Habits
from eventjobs.testing.processes import CoordinatorProcess, wait_for

DISTURBANCES = 3
BETWEEN = (60, 150)
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'eventjobs' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[list[CoordinatorProcess]]:
    """Two coordinators over one database."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with (
        CoordinatorProcess(tmp_path / "first", store=postgres_url) as first,
        CoordinatorProcess(tmp_path / "second", store=postgres_url, environment={"EVENTJOBS_NO_NOTIFY": "1"}) as second,
    ):
        yield [first, second]


def crowd_of(pair: list[CoordinatorProcess], seed: int, **habits: object) -> Crowd:
    wanted = {"clients": 12, "pause_seconds": (0, 0.005)} | habits
    return Crowd(",".join(each.url for each in pair), seed, Habits(**wanted))


async def test_killed_and_restarted(pair, judge):
    """One after the other is killed at any moment and comes back, while the other goes on."""
    chance = random.Random(1)

    async def kill(crowd: Crowd) -> None:
        for number in range(DISTURBANCES):
            await crowd.recorded(chance.randint(*BETWEEN))
            pair[number % 2].kill()
            await asyncio.to_thread(pair[number % 2].restart)
        await crowd.recorded(BETWEEN[1])

    crowd = crowd_of(pair, 1)
    await crowd.run(kill)
    assert await judge(crowd) > 0, "no lease ran out"
    assert any(name.endswith("lost") for name in crowd.recorder.outcomes()), "no answer was lost"


async def test_frozen_beyond_the_leases(pair, judge):
    """One stands still, perhaps with rows locked or its turn to append in its hand, and goes on as if it knew."""
    chance = random.Random(2)

    async def freeze(crowd: Crowd) -> None:
        for number in range(DISTURBANCES):
            await crowd.recorded(chance.randint(*BETWEEN))
            pair[number % 2].process.send(signal.SIGSTOP)
            over = crowd.recorder.now() + round(crowd.habits.lease_seconds[1] * 1_000_000)
            await crowd.until(lambda over=over: crowd.recorder.now() > over)
            pair[number % 2].process.send(signal.SIGCONT)
        await crowd.recorded(BETWEEN[1])

    crowd = crowd_of(pair, 2, patience_seconds=(0.1, 1))
    await crowd.run(freeze)
    assert await judge(crowd) > 0, "no lease ran out"


async def test_connections_broken_at_random(pair, judge, postgres_url):
    """All connections to the database are ended again and again; what was answered stands, and both go on."""
    chance = random.Random(3)

    async def terminate(crowd: Crowd) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for _ in range(2 * DISTURBANCES):
                await crowd.recorded(chance.randint(*BETWEEN) // 2)
                assert connection.execute(TERMINATE).fetchone()[0] > 0
            await crowd.recorded(BETWEEN[1])

    crowd = crowd_of(pair, 3)
    await crowd.run(terminate)
    for each in pair:
        await asyncio.to_thread(wait_for, lambda each=each: each.ask("/readyz")[0] == 200, "both to be ready again")
    await judge(crowd)
    assert all(each.process.running for each in pair)
