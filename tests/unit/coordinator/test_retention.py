"""What rules say goes when its time has come, in small steps, and nothing else does."""

from __future__ import annotations

import asyncio

from eventjobs.coordinator import retention
from eventjobs.domain.commands import Erase, Retire
from eventjobs.domain.retention import parse_rules
from eventjobs.testing import builders as b


def events(stage) -> list[str]:
    return [record.event.type for record in stage.records()]


async def finished(stage, **members) -> str:
    """A job that is done at once."""
    await stage.enqueue(**members)
    (job,) = await stage.lease()
    await stage.execute(b.complete, job.id, token=job.lease_token)
    return job.id


def test_contents_then_the_job_then_its_key(play):
    """Each at its own time after the job's end; the key still stands for the retired job, then is free."""

    async def scene(stage):
        await stage.start(retention=parse_rules("payloads 10s, succeeded 20s, keys 30s"))
        job_id = await finished(stage, idempotency_key="k")
        await asyncio.sleep(9)
        assert events(stage)[-1] == "job_completed"
        await asyncio.sleep(2)
        assert events(stage)[3:] == ["contents_erased"]
        with stage.coordinator.read() as reader:
            assert reader.job(job_id).erased == ("payload", "result")
        await asyncio.sleep(10)
        assert events(stage)[4:] == ["job_retired"]
        with stage.coordinator.read() as reader:
            assert reader.job(job_id) is None
        (again,) = await stage.enqueue_all({"idempotency_key": "k"})
        assert again.job.id == job_id and not again.created
        await asyncio.sleep(10)
        assert events(stage)[5:] == ["idempotency_key_forgotten"]
        (fresh,) = await stage.enqueue_all({"idempotency_key": "k"})
        assert fresh.created

    play(scene)


def test_what_is_not_finished_stays(play):
    """However old a job is, as long as somebody may run it."""

    async def scene(stage):
        await stage.start(retention=parse_rules("succeeded 0s, dead 0s, canceled 0s, payloads 0s, keys 0s"))
        await stage.enqueue()
        await asyncio.sleep(100)
        assert events(stage) == ["job_enqueued"]

    play(scene)


def test_many_jobs_go_in_small_steps(play, monkeypatch):
    """No request to the writer has more than a step's jobs; a start finds what came due while nobody was there."""
    monkeypatch.setattr(retention, "STEP_JOBS", 3)

    async def scene(stage):
        await stage.start()
        for _ in range(7):
            await finished(stage)
        await asyncio.sleep(100)
        assert "job_retired" not in events(stage)
        with stage.coordinator.read() as reader:
            plan = retention.plan(reader, parse_rules("succeeded 1s"), stage.clock.now())
        assert len(plan) == 3
        again = retention.Retention(
            parse_rules("succeeded 1s"), stage.clock, stage.coordinator.look, stage.coordinator.execute
        )
        again.begin()
        await asyncio.sleep(1)
        await again.stop()
        assert events(stage).count("job_retired") == 7

    play(scene)


def planned(stage, rules: str) -> list:
    with stage.coordinator.read() as reader:
        return retention.plan(reader, parse_rules(rules), stage.clock.now())


def test_a_job_that_is_due_takes_no_younger_one_with_it(play):
    """Of jobs in one lane each waits for its own time, for its contents, for itself and for its key."""

    async def scene(stage):
        await stage.start()
        old = await finished(stage, idempotency_key="old")
        await asyncio.sleep(10)
        young = await finished(stage, idempotency_key="young")
        for rules in ("succeeded 5s", "payloads 5s", "keys 5s"):
            assert [command.job_id for command in planned(stage, rules)] == [old]
        await asyncio.sleep(5)
        assert [command.job_id for command in planned(stage, "succeeded 5s")] == [old, young]

    play(scene)


def test_a_job_that_may_be_retired_is_not_erased_before(play):
    """When both are due a job goes in one step, by the rule for jobs of its state."""

    async def scene(stage):
        await stage.start()
        await finished(stage)
        await asyncio.sleep(10)
        assert [type(command) for command in planned(stage, "payloads 1s")] == [Erase]
        assert [type(command) for command in planned(stage, "payloads 1s, succeeded 1s")] == [Retire]

    play(scene)


def test_a_step_drops_no_more_rows_than_it_may(play, monkeypatch):
    """Jobs with many records are fewer in a step; one that has more than that by itself goes alone."""

    async def scene(stage):
        await stage.start()
        for _ in range(5):
            await finished(stage)  # 3 records each
        await asyncio.sleep(10)
        for bound, jobs in ((2, 1), (5, 1), (6, 2), (100, 5)):
            monkeypatch.setattr(retention, "STEP_RECORDS", bound)
            assert len(planned(stage, "succeeded 1s")) == jobs

    play(scene)
