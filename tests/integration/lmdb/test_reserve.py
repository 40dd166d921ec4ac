"""The reserve of the map under many requests at once: new jobs never eat what is kept for finishing the old."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.replies import Unavailable
from eventjobs.domain.job import State
from eventjobs.testing import builders as b
from eventjobs.testing.virtual_time import LoopClock

MAP = 4 << 20


async def enqueue(coordinator, number: int, size: int) -> bool:
    """Whether there was room for it."""
    payload = b.content('"' + "x" * size + '"')
    try:
        await coordinator.enqueue([b.enqueue(b.an_id(number), payload=payload, now=coordinator.clock.now())])
    except Unavailable as refusal:
        if refusal.code == "storage_full":
            return False
        raise
    return True


async def finish_all(coordinator) -> int:
    """Lease and complete all jobs, a few at a time; how many it were."""
    finished = 0
    while jobs := await coordinator.lease(b.lease(now=coordinator.clock.now()), None, None, 10):
        now = coordinator.clock.now()
        outcomes = await coordinator.execute([b.complete(job.id, now=now) for job in jobs])
        assert {job.state for job in outcomes} == {State.SUCCEEDED}
        finished += len(jobs)
    return finished


@pytest.mark.parametrize("size", [10, 3_000, 60_000, 900_000])
async def test_many_new_jobs_at_once_leave_the_reserve_alone(store, size):
    """However many jobs come at one moment, those that are taken can all be leased and completed afterwards."""
    coordinator = await Coordinator.start(store.open(map_size=MAP), LoopClock(b.START))
    store.engine = None  # the coordinator closes it
    try:
        taken, number = 0, 0
        while True:
            asked = range(number + 1, number + 201)
            answers = await asyncio.gather(*(enqueue(coordinator, each, size) for each in asked))
            number += len(answers)
            taken += sum(answers)
            if not any(answers):
                break
        assert await finish_all(coordinator) == taken >= 3
    finally:
        await coordinator.stop()
