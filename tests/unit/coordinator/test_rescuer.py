"""Leases that ran out: in the log within a second, in bounded steps, whatever stands in the way for a while."""

from __future__ import annotations

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from eventjobs.coordinator import rescuer
from eventjobs.coordinator.coordinator import FULL_SECONDS
from eventjobs.domain.job import State
from eventjobs.store.contract import Corrupt, StorageFull
from eventjobs.testing import builders as b

PROMPT = b.seconds(1)


def expirations(stage) -> list[tuple[str, int]]:
    return [(record.job_id, record.time) for record in stage.records() if record.event.type == "lease_expired"]


def test_an_expired_lease_is_in_the_log_promptly(play):
    """At the very time a lease runs out, with nobody asking; the job is available from then on."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        await asyncio.sleep(29.9)
        assert expirations(stage) == []
        await asyncio.sleep(0.2)
        ((job_id, time),) = expirations(stage)
        assert b.at(30) <= time <= b.at(30.01)
        with stage.coordinator.read() as reader:
            assert reader.job(job_id).run_at == time

    play(scene)


def test_each_lease_ends_at_its_own_time(play):
    """Short leases taken after long ones are not kept waiting, and a renewed one lives on."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue_all({}, {}, {}, {})
        for seconds in (60, 10, 30):
            await stage.lease(duration=b.seconds(seconds))
        (renewed,) = await stage.lease(duration=b.seconds(5))
        await stage.execute(b.renew, renewed.id, duration=b.seconds(45))
        await asyncio.sleep(100)
        ended = [(round((time - b.START) / 1_000_000), job_id) for job_id, time in expirations(stage)]
        assert ended == [(10, b.an_id(2)), (30, b.an_id(3)), (45, b.an_id(4)), (60, b.an_id(1))]

    play(scene)


def test_many_leases_are_ended_in_bounded_steps(play, monkeypatch):
    """A sweep over many leases lets others have their turn: each step is a request of its own."""
    monkeypatch.setattr(rescuer, "SWEEP_JOBS", 10)

    async def scene(stage):
        await stage.start()
        await stage.enqueue_all(*({} for _ in range(35)))
        await stage.lease(max_jobs=35, duration=b.seconds(30))
        stage.engine.calls.clear()
        await asyncio.sleep(31)
        assert len(expirations(stage)) == 35
        assert stage.engine.calls.count("commit") == 4
        assert max(time for _, time in expirations(stage)) <= b.at(30) + PROMPT

    play(scene)


def test_a_full_disk_puts_a_sweep_off_and_no_longer(play):
    """While nothing can be written the sweep is tried again each second; when there is room, the leases end."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        stage.engine.failures.extend([StorageFull("no room")] * 5)
        with capture_logs() as lines:
            await asyncio.sleep(34.5)
            assert expirations(stage) == []
            await asyncio.sleep(1)
        ((_, time),) = expirations(stage)
        assert b.at(35) <= time <= b.at(35.01)
        assert [line["event"] for line in lines if line["event"] == "sweep_put_off"] == ["sweep_put_off"] * 5

    play(scene)


def test_a_full_disk_that_a_sweep_meets_makes_the_coordinator_not_ready(play):
    """What the sweep finds out about the store is known to all, for as long as if a request had found it out."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        stage.engine.failures.append(StorageFull("no room"))
        await asyncio.sleep(29.9)
        assert coordinator.ready
        await asyncio.sleep(0.2)
        assert not coordinator.ready
        await asyncio.sleep(FULL_SECONDS)
        assert coordinator.ready

    play(scene)


def test_a_line_that_cannot_be_logged_ends_no_sweeping(play, monkeypatch):
    """A sweep that could not even tell why it was put off is tried again all the same."""

    def broken(*_, **__) -> None:
        raise OSError("nobody reads")

    async def scene(stage):
        await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        stage.engine.failures.append(StorageFull("no room"))
        with monkeypatch.context() as patch:
            patch.setattr(rescuer.log, "warning", broken, raising=False)
            await asyncio.sleep(30.5)
        await asyncio.sleep(1)
        assert len(expirations(stage)) == 1
        gc.collect()
        assert [str(context["exception"]) for context in stage.errors] == ["nobody reads"]
        stage.errors.clear()

    play(scene)


def test_a_lease_taken_while_a_sweep_is_put_off_is_no_trouble(play):
    """New leases and put-off sweeps go side by side."""

    async def scene(stage):
        await stage.start()
        await stage.enqueue_all({}, {})
        await stage.lease(duration=b.seconds(10))
        stage.engine.failures.append(StorageFull("no room"))
        await asyncio.sleep(10.5)
        await stage.lease(duration=b.seconds(0.1))
        await asyncio.sleep(5)
        assert {job_id for job_id, _ in expirations(stage)} == {b.an_id(1), b.an_id(2)}

    play(scene)


@pytest.mark.parametrize("error", [Corrupt("jobs: a damaged row"), AssertionError("a broken promise")])
def test_trouble_with_a_sweep_is_told_and_not_its_end(play, monkeypatch, error):
    """A sweep that meets a broken row is told of in the log; it is tried again, and other leases still end."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue_all({}, {})
        await stage.lease(duration=b.seconds(30))
        real = coordinator._commits.run
        failing = True

        async def run(*request):
            if failing:
                raise error
            return await real(*request)

        monkeypatch.setattr(coordinator._commits, "run", run)
        with capture_logs() as lines:
            await asyncio.sleep(33)
        assert {line["event"] for line in lines} == {"sweep_failed"}
        assert {line["log_level"] for line in lines} == {"error"}
        failing = False
        await asyncio.sleep(70)
        assert len(expirations(stage)) == 1

    play(scene)


def test_leases_that_ran_out_while_nobody_was_there_end_soon_after_the_start(play):
    """A coordinator that starts long after leases ran out ends them when workers had time to come back, and lets those
    that finished meanwhile say so first."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue_all({}, {})
        await stage.lease(max_jobs=2, duration=b.seconds(30))
        await coordinator.stop()
        await asyncio.sleep(1_000)
        stage.engine.calls.clear()  # it is opened again
        await stage.start()
        await asyncio.sleep(5)
        first = b.an_id(1)
        assert (await stage.execute(b.complete, first)).state is State.SUCCEEDED
        assert expirations(stage) == []
        await asyncio.sleep(1.1)
        ((job_id, time),) = expirations(stage)
        assert job_id != first and b.at(1_006) <= time <= b.at(1_006.1)

    play(scene)


def test_leases_that_run_out_after_a_start_end_promptly(play):
    """The grace is for an outage: where no lease ran out in one, there is none."""

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue()
        await stage.lease(duration=b.seconds(30))
        await coordinator.stop()
        stage.engine.calls.clear()  # it is opened again
        await stage.start()
        await asyncio.sleep(30.1)
        ((_, time),) = expirations(stage)
        assert time <= b.at(30.1)

    play(scene)


def test_the_last_attempt_dies_by_its_lease(play):
    """A job without attempts left is dead when its lease runs out."""

    async def scene(stage):
        await stage.start()
        job = await stage.enqueue(max_attempts=1)
        await stage.lease(duration=b.seconds(30))
        await asyncio.sleep(31)
        with stage.coordinator.read() as reader:
            assert reader.job(job.id).state is State.DEAD

    play(scene)


def test_stopping_in_the_middle_of_a_sweep_is_clean(play, monkeypatch):
    """A coordinator that stops while a sweep waits for the writer leaves no task behind."""
    monkeypatch.setattr(rescuer, "SWEEP_JOBS", 1)

    async def scene(stage):
        coordinator = await stage.start()
        await stage.enqueue_all({}, {}, {})
        await stage.lease(max_jobs=3, duration=b.seconds(30))
        await asyncio.sleep(29)
        stage.engine.close_gate()
        stage.loop.advance(1.5)
        await asyncio.sleep(0)
        await stage.engine.somebody_at_gate()
        stopping = asyncio.create_task(coordinator.stop())
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await stopping
        assert len(expirations(stage)) <= 3
        assert coordinator._rescuer._sweep is None or coordinator._rescuer._sweep.done()

    play(scene)
