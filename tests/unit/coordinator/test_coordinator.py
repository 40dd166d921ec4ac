"""The coordinator as a whole: starting, draining, stopping, failing, and telling who watches the log."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator import group_commit
from eventjobs.coordinator.coordinator import FULL_SECONDS, MAINTENANCE_SECONDS, Coordinator
from eventjobs.coordinator.replies import BatchRejected, Unavailable, UnknownOutcome
from eventjobs.domain.job import State
from eventjobs.store.contract import Failed, OutcomeUnknown, StorageFull
from eventjobs.testing import builders as b


def test_a_full_store_takes_no_new_jobs_and_finishes_the_old(play):
    """Without room a new job is refused as storage_full; a known key, leases and completions are served."""

    async def scene(stage):
        coordinator = await stage.start()
        job = await stage.enqueue(idempotency_key="key")
        stage.engine.room = False
        with pytest.raises(Unavailable) as caught:
            await stage.enqueue()
        assert caught.value.code == "storage_full"
        (reply,) = await stage.enqueue_all({"idempotency_key": "key"})
        assert reply.job == job and not reply.created
        (leased,) = await stage.lease()
        assert (await stage.execute(b.complete, leased.id)).state is State.SUCCEEDED
        stage.engine.room = True
        assert (await stage.enqueue()).state is State.QUEUED
        assert not coordinator.ready
        await asyncio.sleep(FULL_SECONDS)
        assert coordinator.ready

    play(scene)


def test_a_conflict_is_a_reply(play):
    """A reused key is no exception."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue(idempotency_key="key")
        other = b.enqueue(b.an_id(9), idempotency_key="key", kind="other")
        assert isinstance(await stage.coordinator.enqueue([other]), BatchRejected)

    play(scene)


def test_a_full_disk_is_told_and_passes(play):
    """A commit that finds no space is storage_full; the coordinator goes on, and is ready again after a while."""

    async def scene(stage):
        coordinator = await stage.start()
        stage.engine.failures.append(StorageFull("the disk is full"))
        with pytest.raises(Unavailable) as caught:
            await stage.enqueue()
        assert caught.value.code == "storage_full" and not coordinator.ready
        assert (await stage.enqueue()).version == 1
        await asyncio.sleep(FULL_SECONDS)
        assert coordinator.ready

    play(scene)


def test_lines_that_cannot_be_logged_keep_nobody_waiting(play, monkeypatch):
    """Telling of a commit is the last of what follows it: those who wait are woken although it fails."""

    def broken(_) -> None:
        raise OSError("nobody reads")

    async def scene(stage):
        await stage.start()
        waiting = stage.poll()
        later = stage.poll(kinds=["later"])
        await stage.settle()
        monkeypatch.setattr("eventjobs.coordinator.coordinator.report", broken)
        await stage.enqueue()
        await stage.enqueue(kind="later", delay=b.seconds(10))
        assert [len(await poll) for poll in (waiting, later)] == [1, 1]
        await asyncio.sleep(60)
        assert [record.event.type for record in stage.records()].count("lease_expired") == 2
        assert {str(context["exception"]) for context in stage.errors} == {"nobody reads"}
        stage.errors.clear()

    play(scene)


def test_commands_that_wait_are_bounded_by_what_they_take(play, monkeypatch):
    """Each command counts, enqueue or other, also without contents; with them it is more."""
    monkeypatch.setattr(group_commit, "PENDING_BYTES_MAX", 10 * group_commit.COMMAND_BYTES)

    async def scene(stage):
        coordinator = await stage.start()
        now = stage.clock.now()
        jobs = [b.enqueue(b.an_id(number), now=now, payload=None) for number in range(1, 11)]
        cancels = [b.cancel(job.job_id, now=now) for job in jobs]
        for write, commands in ((coordinator.enqueue, jobs), (coordinator.execute, cancels)):
            with pytest.raises(Unavailable, match="waiting to be written"):
                await write([*commands, commands[0]])
            assert len(await write(commands)) == 10
        heavy = b.enqueue(b.an_id(11), now=now, payload=b.content("x" * 100))
        with pytest.raises(Unavailable, match="waiting to be written"):
            await coordinator.enqueue([*jobs[:9], heavy])
        stage.engine.close_gate()
        waiting = asyncio.create_task(coordinator.execute(cancels))
        await stage.engine.somebody_at_gate()
        with pytest.raises(Unavailable, match="waiting to be written"):
            await stage.lease()
        stage.engine.open_gate()
        await waiting
        assert await stage.lease() == []

    play(scene)


def test_an_unknown_outcome_ends_the_coordinator(play):
    """The caller is told that nobody knows, failed() says why, what waits ends, and commands are refused."""

    async def scene(stage):
        coordinator = await stage.start()
        failed = asyncio.create_task(coordinator.failed())
        waiting = stage.poll(kinds=["other"])
        watching = asyncio.create_task(coordinator.log_moved(0, 60))
        await stage.settle()
        assert coordinator.ready and not failed.done()
        error = OutcomeUnknown("EIO")
        stage.engine.failures.append(error)
        with pytest.raises(UnknownOutcome):
            await stage.enqueue()
        began = stage.loop.time()
        async with asyncio.timeout(1):
            assert await failed is error
            assert await waiting == []
            assert await watching is True
        assert stage.loop.time() == began
        assert not coordinator.ready
        with pytest.raises(Unavailable) as caught:
            await stage.enqueue()
        assert caught.value.code == "shutting_down"

    play(scene)


def test_who_reads_a_store_that_failed_is_told_to_ask_again(play):
    """An answer may need the store when the next commit has failed already: nobody knows what it would say."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        stage.engine.read_failure = Failed("a commit failed before")
        with pytest.raises(UnknownOutcome):
            await coordinator.look(lambda view: view.head())
        with pytest.raises(UnknownOutcome):
            await coordinator.log_moved(0, 60)
        stage.engine.read_failure = None

    play(scene)


def test_draining_ends_the_waiting_and_finishes_the_writing(play):
    """Long-polls end empty-handed at once; what is being written is answered; whatever comes is refused."""

    async def scene(stage):
        coordinator = await stage.start()
        waiting = [stage.poll(kinds=["other"]) for _ in range(3)]
        await stage.settle()
        stage.engine.close_gate()
        writing = asyncio.create_task(stage.enqueue())
        await stage.engine.somebody_at_gate()
        coordinator.drain()
        assert not coordinator.ready and coordinator.draining
        assert await asyncio.gather(*waiting) == [[], [], []]
        for refused in (stage.enqueue(), stage.lease(), stage.execute(b.complete)):
            with pytest.raises(Unavailable) as caught:
                await refused
            assert caught.value.code == "shutting_down"
        stage.engine.open_gate()
        assert (await writing).version == 1

    play(scene)


def test_draining_leaves_a_job_to_those_who_come_back(play):
    """A request that is woken by the drain does not take a job along."""

    async def scene(stage):
        coordinator = await stage.start()
        waiting = stage.poll()
        await stage.settle()
        stage.engine.close_gate()
        writing = asyncio.create_task(stage.enqueue())
        await stage.engine.somebody_at_gate()
        coordinator.drain()
        stage.engine.open_gate()
        job = await writing
        assert await waiting == []
        with coordinator.read() as reader:
            assert reader.job(job.id).state is State.QUEUED

    play(scene)


def test_stopping_closes_the_engine_last(play):
    """Everything that came in is written before the engine is closed, and nothing touches it afterwards."""

    async def scene(stage):
        coordinator = await stage.start()
        stage.engine.close_gate()
        writing = [
            asyncio.create_task(stage.enqueue(delay=b.seconds(5))),
            asyncio.create_task(stage.enqueue()),
        ]
        await stage.engine.somebody_at_gate()
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await stopping
        assert [task.result().version for task in writing] == [1, 1]
        assert stage.engine.calls[-1] == "close" and stage.engine.calls.count("close") == 1

    play(scene)  # which lets a hundred days pass, and no timer may ask the closed engine


def test_a_lease_that_is_written_while_stopping_leaves_no_timer(play):
    """A lease granted by the last commit does not have a sweep look into a closed store when it runs out."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        stage.engine.close_gate()
        leasing = asyncio.create_task(stage.lease())
        await stage.engine.somebody_at_gate()
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await stopping
        assert len(await leasing) == 1

    play(scene)


def test_a_start_picks_up_the_times_of_the_store(play):
    """Leases that ran out and jobs that come due after a restart are seen without any command."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        await stage.enqueue(kind="later", delay=b.seconds(50))
        await coordinator.stop()
        stage.engine.calls.clear()  # it is opened again
        await stage.start()
        (later,) = await stage.lease(kinds=["later"], wait=60)
        assert later.lease.leased_at - b.at(50) < b.seconds(0.01)
        expired = next(record for record in stage.records() if record.event.type == "lease_expired")
        assert expired.time - b.at(30) < b.seconds(0.01)

    play(scene)


def test_the_clock_starts_no_earlier_than_the_log(play):
    """Over a log of the future the coordinator's own clock starts at the newest record's time."""

    async def scene(stage):
        future = b.at(100 * 365 * 86_400)
        coordinator = await stage.start()
        await coordinator.enqueue([b.enqueue(now=future)])
        again = await Coordinator.start(stage.engine)
        assert future <= again.clock.now() <= future + b.seconds(60)
        await again._commits.close()
        await again._rescuer.stop()
        again._due.stop()
        again._maintenance.cancel()

    play(scene)


def test_the_log_is_watched(play):
    """A watcher is told when the log is longer than it knows, at once when it is already, and not before."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        began = stage.loop.time()
        assert await coordinator.log_moved(0, 60)
        watching = [asyncio.create_task(coordinator.log_moved(beyond, 60)) for beyond in (1, 1, 2)]
        await stage.settle()
        assert not any(task.done() for task in watching)
        await stage.enqueue()
        await stage.settle()
        assert [task.done() for task in watching] == [True, True, False], "the log has two records, not three"
        await stage.enqueue()
        assert await asyncio.gather(*watching) == [True] * 3
        assert stage.loop.time() < began + 1

    play(scene)


def test_a_log_that_does_not_move_is_told_in_time(play):
    """When nothing is appended the watcher is told so at its time; a refusal appends nothing."""

    async def scene(stage):
        coordinator = await stage.start()
        watching = asyncio.create_task(coordinator.log_moved(0, 15))
        await asyncio.sleep(5)
        await stage.execute(b.complete)
        assert await watching is False
        assert stage.clock.now() == b.at(15)
        assert not coordinator._log_watchers

    play(scene)


def test_watchers_of_the_log_end_with_the_coordinator(play):
    """Draining tells those who watch, and those who come later, at once."""

    async def scene(stage):
        coordinator = await stage.start()
        watching = asyncio.create_task(coordinator.log_moved(0, 60))
        await stage.settle()
        began = stage.loop.time()
        coordinator.drain()
        assert await watching is True
        assert await coordinator.log_moved(0, 60) is True
        assert stage.loop.time() == began

    play(scene)


def test_house_is_kept_on_a_timer(play):
    """The engine is asked to keep house again and again, and not after the end."""

    async def scene(stage):
        coordinator = await stage.start()
        await asyncio.sleep(MAINTENANCE_SECONDS * 10.5)
        await stage.enqueue()
        assert stage.engine.calls.count("maintain") == 10
        await coordinator.stop()

    play(scene)


def test_an_idle_coordinator_sets_few_timers(play):
    """With nothing to do there is the timer of housekeeping, and no other wakes the loop."""

    async def scene(stage):
        await stage.start()
        waiting = stage.poll(wait=60)
        await stage.settle()
        rounds = 0
        real = stage.loop._selector.select

        def counted(timeout=None):
            nonlocal rounds
            rounds += 1
            return real(timeout)

        stage.loop._selector.select = counted
        assert await waiting == []
        assert rounds <= 3 * (60 / MAINTENANCE_SECONDS + 2)

    play(scene)
