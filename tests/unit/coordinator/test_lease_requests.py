"""Lease requests of one id that are under way at the same time: they get one answer, and lose no job."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator.replies import Unavailable
from eventjobs.store.contract import StorageFull
from eventjobs.testing import builders as b


def test_requests_of_one_id_that_wait_together_get_one_answer(play):
    """A repeat that comes while the first still waits: what the one is given the other is told, and nothing is lost."""

    async def scene(stage):
        await stage.start()
        first = stage.poll(request_id="r", worker="twice")
        await stage.settle()
        again = stage.poll(request_id="r", worker="twice")
        other = stage.poll(request_id="r", worker="other")
        await stage.settle()
        job = await stage.enqueue()
        assert [[each.id for each in await asked] for asked in (first, again)] == [[job.id], [job.id]]
        assert not other.done()
        job = await stage.enqueue()
        assert [each.id for each in await other] == [job.id]

    play(scene)


def test_a_repeat_that_does_not_wait_ends_the_wait_of_the_first(play):
    """After an empty answer under an id, nothing is leased for a connection on which the request still stood open."""

    async def scene(stage):
        await stage.start()
        began = stage.loop.time()
        first = stage.poll(request_id="r")
        await asyncio.sleep(10)
        assert await stage.lease(request_id="r") == []
        assert await first == []
        assert stage.loop.time() - began == pytest.approx(10)
        job = await stage.enqueue()
        await stage.settle()
        assert [each.id for each in await stage.lease(request_id="next")] == [job.id]

    play(scene)


def test_a_repeat_that_comes_with_a_job_gets_it(play):
    """A job that comes in the very moment in which the repeat ends the wait is in the answer to both."""

    async def scene(stage):
        await stage.start()
        first = stage.poll(request_id="r")
        await stage.settle()
        enqueuing = asyncio.create_task(stage.enqueue())
        again = asyncio.create_task(stage.lease(request_id="r"))
        answers = [[each.id for each in await asked] for asked in (first, again)]
        job = await enqueuing
        assert answers in ([[job.id], [job.id]], [[], []])
        left = [each.id for each in await stage.lease(request_id="next")]
        assert left == ([] if answers[0] else [job.id])

    play(scene)


@pytest.mark.parametrize("gone", ["first", "again"])
def test_a_repeat_waits_on_when_one_of_both_has_gone(play, gone):
    """As long as somebody wants the answer the request is served; once nobody does it is not."""

    async def scene(stage):
        await stage.start()
        here = {"first", "again"}
        first = stage.poll(request_id="r", still_wanted=lambda: "first" in here)
        await stage.settle()
        again = stage.poll(request_id="r", still_wanted=lambda: "again" in here)
        await stage.settle()
        here.remove(gone)
        job = await stage.enqueue()
        assert [[each.id for each in await asked] for asked in (first, again)] == [[job.id], [job.id]]
        await stage.execute(b.complete, job.id)
        nobody = stage.poll(request_id="s", still_wanted=lambda: False)
        await stage.enqueue()
        assert await nobody == []

    play(scene)


def test_requests_of_one_id_end_at_the_earliest_of_their_times(play):
    """The answer that is due first is the answer for all."""

    async def scene(stage):
        await stage.start()
        began = stage.loop.time()
        polls = [stage.poll(request_id="r", wait=wait) for wait in (60, 20, 40)]
        assert [await poll for poll in polls] == [[], [], []]
        assert stage.loop.time() - began == pytest.approx(20)

    play(scene)


def test_requests_of_one_id_fail_together(play):
    """A try that fails is told to everybody who waits for it, and so is the end of the coordinator."""

    async def scene(stage):
        await stage.start()
        polls = [stage.poll(request_id="r") for _ in range(2)]
        await stage.settle()
        stage.engine.failures.extend([None, StorageFull("the disk is full")])
        await stage.enqueue()
        for poll in polls:
            with pytest.raises(Unavailable, match="full"):
                await poll
        first = stage.poll(request_id="s", queues=["none"])
        await stage.settle()
        again = stage.poll(request_id="s", queues=["none"])
        await stage.settle()
        first.cancel()
        with pytest.raises(Unavailable):
            await again

    play(scene)


def test_requests_without_an_id_are_each_on_their_own(play):
    """Without an id nothing tells two requests of a worker to be one: each waits for itself, and is not kept."""

    async def scene(stage):
        coordinator = await stage.start()
        polls = [stage.poll(request_id=None) for _ in range(2)]
        await stage.settle()
        assert coordinator._lease_requests == {}
        jobs = [await stage.enqueue() for _ in range(2)]
        assert [[each.id for each in await poll] for poll in polls] == [[job.id] for job in jobs]

    play(scene)
