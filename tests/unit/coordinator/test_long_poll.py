"""Lease requests that wait: woken by every way a job can become available, never woken in vain for good."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator.group_commit import GROUP_REQUESTS_MAX
from eventjobs.coordinator.replies import Unavailable
from eventjobs.store.contract import StorageFull
from eventjobs.testing import builders as b


async def enqueue(stage, job):
    await stage.enqueue(queue="wanted")


async def schedule(stage, job):
    await stage.enqueue(queue="wanted", delay=b.seconds(20))


async def retry(stage, job):
    await stage.execute(b.fail, job.id, delay=0)


async def retry_later(stage, job):
    await stage.execute(b.fail, job.id, delay=b.seconds(20))


async def release(stage, job):
    await stage.execute(b.release, job.id)


async def expire(stage, job):
    """Its lease was taken for twenty seconds."""


async def requeue(stage, job):
    await stage.execute(b.fail, job.id, retry=False)
    await stage.execute(b.requeue, job.id)


@pytest.mark.parametrize(
    ("happens", "after"),
    [(enqueue, 0), (retry, 0), (release, 0), (requeue, 0), (schedule, 20), (retry_later, 20), (expire, 20)],
)
def test_a_waiting_request_wakes_when_a_job_becomes_available(play, happens, after):
    """Whatever makes a job available, the request has it at that very time, and not a moment before."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue(queue="wanted" if happens not in (enqueue, schedule) else "other")
        (job,) = await stage.lease(worker="first", duration=b.seconds(20))
        began = stage.loop.time()
        waiting = stage.poll(worker="second", queues=["wanted"])
        await stage.settle()
        await happens(stage, job)
        (job,) = await waiting
        assert job.lease.worker == "second"
        assert after <= stage.loop.time() - began <= after + 0.01

    play(scene)


def test_a_request_that_finds_a_job_does_not_wait(play):
    """A job that is there is leased at once."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        began = stage.loop.time()
        assert len(await stage.lease(wait=60)) == 1
        assert stage.loop.time() == began

    play(scene)


def test_a_request_that_finds_nothing_waits_as_long_as_it_said(play):
    """It ends empty-handed at its time, and has written nothing."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue(kind="other")
        began = stage.loop.time()
        assert await stage.lease(wait=60, kinds=["email"]) == []
        assert stage.loop.time() == began + 60
        assert len(stage.records()) == 1

    play(scene)


def test_a_job_for_others_does_not_end_the_wait(play):
    """Jobs of other kinds and queues pass by."""

    async def scene(stage):
        await stage.start()
        waiting = stage.poll(kinds=["email"], queues=["default"])
        await stage.settle()
        await stage.enqueue(kind="other")
        await stage.enqueue(queue="other")
        await stage.settle()
        assert not waiting.done()
        await stage.enqueue()
        assert len(await waiting) == 1

    play(scene)


def test_one_job_goes_to_the_longest_waiting(play):
    """Of many who wait one gets it, the first; the others keep waiting, and get the next ones in their order."""

    async def scene(stage):
        await stage.start()
        polls = []
        for number in range(5):
            polls.append(stage.poll(worker=f"worker-{number}"))
            await stage.settle()
        stage.engine.calls.clear()
        for number in range(5):
            await stage.enqueue()
            await stage.settle()
            assert [poll.done() for poll in polls] == [True] * (number + 1) + [False] * (4 - number)
        assert stage.engine.calls.count("begin") == 10, "nobody tried in vain"

    play(scene)


def test_a_batch_wakes_as_many_as_it_has_jobs(play):
    """Three jobs go to three workers at once."""

    async def scene(stage):
        await stage.start()
        polls = [stage.poll(worker=f"worker-{number}") for number in range(4)]
        await stage.settle()
        await stage.enqueue_all({}, {}, {})
        await stage.settle()
        assert [poll.done() for poll in polls] == [True, True, True, False]

    play(scene)


def test_a_job_of_a_full_group_wakes_who_waits(play):
    """What happened in a group of as many requests as go into one is known to those who wait for it."""

    async def scene(stage):
        coordinator = await stage.start()
        waiting = stage.poll(queues=["wanted"])
        await stage.settle()
        stage.engine.close_gate()
        first = asyncio.create_task(stage.enqueue())
        await stage.engine.somebody_at_gate()
        queues = ["wanted", *["default"] * (GROUP_REQUESTS_MAX - 1)]
        group = [asyncio.create_task(stage.enqueue(queue=queue)) for queue in queues]
        await asyncio.sleep(0)
        assert coordinator.pending == GROUP_REQUESTS_MAX + 1
        stage.engine.calls.clear()
        stage.engine.open_gate()
        await asyncio.gather(first, *group)
        assert stage.engine.calls[:2] == ["begin", "commit"]
        async with asyncio.timeout(1):
            assert len(await waiting) == 1
        assert stage.engine.calls.count("commit") == 2, "one of them all, and one of the lease"

    play(scene)


def test_a_caller_that_left_gets_nothing_and_hands_on(play):
    """Whoever does not want it any more when woken is not leased anything; the next in line is."""

    async def scene(stage):
        await stage.start()
        there = True
        first = stage.poll(worker="first", still_wanted=lambda: there)
        await stage.settle()
        second = stage.poll(worker="second")
        await stage.settle()
        there = False
        await stage.enqueue()
        (job,) = await second
        assert job.lease.worker == "second"
        assert await first == []
        assert len(stage.records()) == 2

    play(scene)


def test_a_caller_that_left_before_is_not_served(play):
    """A request nobody waits for is not even begun."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        stage.engine.calls.clear()
        assert await stage.lease(still_wanted=lambda: False) == []
        assert stage.engine.calls == []

    play(scene)


def test_a_cancelled_wait_hands_on(play):
    """A request that is cancelled between its wake and its try passes the wake to the next."""

    async def scene(stage):
        await stage.start()
        first = stage.poll(worker="first")
        await stage.settle()
        second = stage.poll(worker="second")
        await stage.settle()
        stage.coordinator._waiters.offer({("default", "email"): 1})
        first.cancel()
        stage.coordinator._waiters.offer({("default", "email"): 0})
        await stage.settle()
        await stage.enqueue()
        (job,) = await second
        assert job.lease.worker == "second"

    play(scene)


def test_a_wake_at_the_last_moment_is_not_lost(play):
    """A job that becomes available at the moment a request's time is up goes to it or to the next in line."""

    async def scene(stage):
        await stage.start()
        first = stage.poll(worker="first", wait=20)
        await stage.settle()
        second = stage.poll(worker="second", wait=60)
        await stage.settle()
        await stage.enqueue(run_at=b.at(20))
        jobs = (await first) or (await second)
        assert len(jobs) == 1
        assert stage.clock.now() <= b.at(20.01)

    play(scene)


def test_who_takes_a_job_of_another_lane_hands_its_wake_on(play):
    """Woken for one job, a request that takes a better one of another lane leaves the first to whoever waits for it."""

    async def scene(stage):
        await stage.start()
        both = stage.poll(worker="both", kinds=["a", "b"])
        await stage.settle()
        only_b = stage.poll(worker="only b", kinds=["b"])
        only_a = stage.poll(worker="only a", kinds=["a"])
        await stage.settle()
        await stage.enqueue_all({"kind": "a"}, {"kind": "b", "priority": 9})
        await stage.settle()
        assert both.done() and only_a.done(), "a job waits, and so does somebody who wants it"
        assert not only_b.done()

    play(scene)


def test_a_try_that_fails_hands_its_wake_on(play):
    """When the writer refuses a woken request, the job goes to the next in line."""

    async def scene(stage):
        await stage.start()
        first = stage.poll(worker="first")
        await stage.settle()
        second = stage.poll(worker="second")
        await stage.settle()
        stage.engine.failures.extend([None, StorageFull("no room")])
        await stage.enqueue()
        await stage.settle()
        with pytest.raises(Unavailable):
            await first
        assert second.done(), "a job waits, and so does somebody who wants it"

    play(scene)


def test_a_request_made_before_a_job_came_due_finds_it(play):
    """A request whose time was taken just before a job came due, and that comes in just after, does not miss it."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue(run_at=b.at(20))
        await asyncio.sleep(19.9999)
        command = b.lease(now=stage.clock.now())
        await asyncio.sleep(0.01)  # the alarm has rung, and nobody waited
        async with asyncio.timeout(1):
            (job,) = await stage.coordinator.lease(command, None, None, 1, b.seconds(60))
        assert job.lease.leased_at >= b.at(20)

    play(scene)


@pytest.mark.parametrize("late", [0, 1, 1_000])
def test_a_job_that_came_due_while_it_was_written_is_not_missed(play, late):
    """A job whose time passes between its commit and the news of it wakes those who wait."""

    async def scene(stage):
        await stage.start()
        waiting = stage.poll()
        await stage.settle()
        stage.engine.close_gate()
        run_at = stage.clock.now() + 500
        enqueuing = asyncio.create_task(stage.enqueue(run_at=run_at))
        await stage.engine.somebody_at_gate()
        stage.loop.advance((500 + late) / 1_000_000)
        stage.coordinator._jobs_came_due()  # as the alarm of another job would have it look
        stage.engine.open_gate()
        await enqueuing
        async with asyncio.timeout(1):
            assert len(await waiting) == 1

    play(scene)


def test_scheduled_jobs_come_due_in_their_order(play):
    """Each scheduled job is had at its time, also one that was enqueued later for an earlier time."""

    async def scene(stage):
        await stage.start()
        for seconds in (30, 10, 20, 10, 4_000, 90_000):
            await stage.enqueue(delay=b.seconds(seconds))
        took = []
        while len(took) < 6:
            for job in await stage.lease(wait=60, max_jobs=10, duration=b.seconds(86_400)):
                took.append((stage.clock.now() - job.run_at) / 1_000_000)
                await stage.execute(b.complete, job.id)
        assert max(took) <= 0.001

    play(scene)


def test_a_scheduled_job_wakes_everyone_who_could_take_it(play):
    """Ten jobs that come due at one moment go to ten who wait for them, and to nobody else."""

    async def scene(stage):
        await stage.start()
        polls = [stage.poll(worker=f"worker-{number}", kinds=["email"]) for number in range(10)]
        other = stage.poll(kinds=["report"])
        await stage.settle()
        await stage.enqueue_all(*({"run_at": b.at(20)} for _ in range(10)))
        await asyncio.sleep(21)
        assert [poll.done() for poll in polls] == [True] * 10
        assert not other.done()

    play(scene)


def test_jobs_of_several_lanes_that_come_due_at_one_moment_are_all_had(play):
    """Each lane that came due has its waiters woken, those of every lane and those of one."""

    async def scene(stage):
        await stage.start()
        wishes = (None, ["a"], ["b"])
        polls = [stage.poll(worker=f"worker-{number}", kinds=kinds) for number, kinds in enumerate(wishes)]
        await stage.settle()
        await stage.enqueue_all(*({"run_at": b.at(20), "kind": kind} for kind in ("a", "b", "c")))
        await asyncio.sleep(21)
        jobs = [job for poll in polls if poll.done() for job in poll.result()]
        assert len(jobs) >= 2, "two who could take what is there must not wait"
        left = [job for job in ("a", "b", "c") if job not in {job.spec.kind for job in jobs}]
        waiting = [kinds for poll, kinds in zip(polls, wishes, strict=True) if not poll.done()]
        assert not any(kind in kinds for kind in left for kinds in waiting)

    play(scene)


def test_a_canceled_schedule_wakes_nobody_for_nothing(play):
    """A job that was canceled before its time leaves the others' times as they were."""

    async def scene(stage):
        await stage.start()
        first = await stage.enqueue(delay=b.seconds(10))
        await stage.enqueue(delay=b.seconds(20))
        waiting = stage.poll()
        await stage.settle()
        await stage.execute(b.cancel, first.id)
        (job,) = await waiting
        assert job.lease.leased_at - b.at(20) < b.seconds(0.01)

    play(scene)


def test_a_repeated_request_is_not_kept_waiting(play):
    """A request that was granted jobs before is given no others, so there is nothing to wait for."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        (job,) = await stage.lease(request_id="r")
        began = stage.loop.time()
        assert [each.id for each in await stage.lease(request_id="r", wait=60)] == [job.id]
        await stage.execute(b.complete, job.id)
        assert await stage.lease(request_id="r", wait=60) == []
        assert stage.loop.time() == began

    play(scene)


def test_a_repeated_request_stands_in_nobodys_way(play):
    """A request that can be given nothing does not take the wakes of those who can."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        (job,) = await stage.lease(request_id="r")
        await stage.execute(b.complete, job.id)
        stage.poll(request_id="r")
        await stage.settle()
        waiting = stage.poll(worker="second")
        await stage.settle()
        await stage.enqueue()
        await stage.settle()
        assert waiting.done()

    play(scene)


def test_a_request_that_waits_for_its_first_grant_keeps_waiting(play):
    """A request id that was given nothing yet is no repetition."""

    async def scene(stage):
        await stage.start()
        assert await stage.lease(request_id="r") == []
        waiting = stage.poll(request_id="r")
        await asyncio.sleep(30)
        job = await stage.enqueue()
        assert [each.id for each in await waiting] == [job.id]

    play(scene)


def test_a_job_whose_lease_ran_out_goes_to_another_worker_first(play):
    """A frozen worker whose request still waits does not get the job back that it did not run, if another waits."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue(queue="wanted")
        await stage.lease(worker="frozen", duration=b.seconds(20))
        own = stage.poll(worker="frozen", queues=["wanted"])
        await stage.settle()
        other = stage.poll(worker="other", queues=["wanted"])
        (job,) = await other
        assert job.lease.worker == "other"
        assert not own.done()

    play(scene)
