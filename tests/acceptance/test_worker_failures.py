"""Workers that die or freeze, coordinators that go away, handlers that fail: every job ends, and ends once."""

from __future__ import annotations

import signal
import time
from collections import Counter

from eventjobs import NewJob

AT_ONCE = {"type": "constant", "base": 0}


async def test_another_worker_finishes_the_job_of_a_killed_one(client, start_worker, history, eventually, tmp_path):
    """The lease of the dead runs out within its time; the next attempt is somebody else's."""
    job = await client.enqueue("hold")
    first = start_worker("first", lease_seconds=1)
    await eventually(lambda: first.has_started(job.id), "the first attempt")
    first.kill()
    second = start_worker("second", lease_seconds=1)
    await eventually(lambda: second.has_started(job.id), "the second attempt", 10)
    (tmp_path / "go").touch()
    await eventually(lambda: second.lines("job_completed"), "the end")
    job = await client.job(job.id)
    assert (job.state, job.result, job.attempts, job.lease_token) == ("succeeded", "second", 2, 2)
    happened = [each for each in await history(job.id) if each[0] != "lease_renewed"]
    assert happened[1:] == [
        ("job_leased", "first"),
        ("lease_expired", "rescuer"),
        ("job_leased", "second"),
        ("job_completed", "second"),
    ]


async def test_a_frozen_worker_changes_nothing_when_it_thaws(client, start_worker, history, eventually):
    """Its late completion, failure and renewal are refused; the results of the others stand."""
    seconds = 2.0
    completes, fails, goes_on = [
        await client.enqueue("first-attempt-takes", {"seconds": wait, "then": then})
        for wait, then in ((seconds, "complete"), (seconds, "fail"), (3_600, "go on"))
    ]
    jobs = (completes, fails, goes_on)
    frozen = start_worker("frozen", lease_seconds=1, concurrency=len(jobs))  # full: it asks for no more
    await eventually(lambda: all(frozen.has_started(job.id) for job in jobs), "all to start")
    began = time.monotonic()
    frozen.send(signal.SIGSTOP)
    start_worker("other", lease_seconds=5)

    async def done():
        return all([(await client.job(job.id)).state == "succeeded" for job in jobs])

    await eventually(done, "the other worker")
    before = {job.id: await client.job(job.id) for job in jobs}
    # the two sleeps are over by the time it thaws: their outcomes are its first deed
    await eventually(lambda: time.monotonic() - began > seconds, "the time of the handlers")
    frozen.send(signal.SIGCONT)
    await eventually(lambda: frozen.lines("lease_lost"), "the renewal to be refused")
    await eventually(lambda: len(frozen.lines("outcome_refused")) == 2, "the outcomes to be refused")
    refused = {line["job_id"]: (line["code"], line["token"]) for line in frozen.lines("outcome_refused")}
    assert refused == {job.id: ("stale_token", 1) for job in (completes, fails)}
    assert [line["job_id"] for line in frozen.lines("lease_lost")] == [goes_on.id]
    for job in jobs:
        assert await client.job(job.id) == before[job.id]
        assert before[job.id].result == "other"
        assert Counter(kind for kind, _ in await history(job.id))["job_completed"] == 1
    late = await client.enqueue("answer")
    await eventually(lambda: _succeeded(client, late.id), "the workers to go on")


async def test_a_worker_goes_on_when_the_coordinator_comes_back(
    coordinator, client, start_worker, eventually, tmp_path
):
    """The coordinator is killed with a job in hand: its end is recorded afterwards, and new jobs are taken."""
    job = await client.enqueue("hold")
    worker = start_worker("w", lease_seconds=10)
    await eventually(lambda: worker.has_started(job.id), "the handler")
    coordinator.kill()
    await eventually(lambda: worker.lines("coordinator_unreachable"), "the outage to be noticed")
    (tmp_path / "go").touch()
    coordinator.restart()
    await eventually(lambda: _succeeded(client, job.id), "the outcome of before")
    more = await client.enqueue("answer", [1])
    await eventually(lambda: _succeeded(client, more.id), "a job of after")
    assert (await client.job(job.id)).attempts == 1
    assert len(worker.lines("coordinator_answers_again")) == 1


async def test_a_thousand_jobs_are_finished_once_each(coordinator, client, start_worker, eventually):
    """Several processes share the work; the log has one completion for each job, and each has its own result."""
    count = 1_000
    workers = [start_worker(f"w{number}", concurrency=20) for number in range(3)]
    jobs = (await client.enqueue_many([_numbered(number) for number in range(count)])).jobs

    async def done():
        return (await client.stats()).jobs["succeeded"] == count

    await eventually(done, "a thousand jobs", 60)
    events, after = [], 0
    while page := (await client.events(after=after, limit=1_000)).events:
        events += page
        after = page[-1].position
    kinds = Counter(event.type for event in events)
    assert kinds == {"job_enqueued": count, "job_leased": count, "job_completed": count}
    finished = Counter(event.job_id for event in events if event.type == "job_completed")
    assert finished == dict.fromkeys((job.id for job in jobs), 1)
    assert {event.actor.id for event in events if event.type == "job_completed"} == {worker.name for worker in workers}
    results = {job.id: job.result["payload"] async for job in client.jobs(state="succeeded")}
    assert results == {job.id: number for number, job in enumerate(jobs)}
    assert [worker.terminate() for worker in workers] == [0, 0, 0]


async def test_a_job_that_fails_twice_then_succeeds(client, start_worker, history, eventually):
    """Each failure is recorded with its words, and the third attempt's result is the job's."""
    job = await client.enqueue("fail", {"failures": 2}, retry_policy=AT_ONCE)
    worker = start_worker("w")
    await eventually(lambda: _succeeded(client, job.id), "the third attempt")
    job = await client.job(job.id)
    assert (job.result, job.attempts, job.error.type, job.error.message) == (3, 3, "RuntimeError", "attempt 2")
    assert 'raise RuntimeError(f"attempt {job.attempt}")' in job.error.traceback
    assert Counter(kind for kind, _ in await history(job.id)) == {
        "job_enqueued": 1,
        "job_leased": 3,
        "attempt_failed": 2,
        "job_completed": 1,
    }
    assert [line["attempt"] for line in worker.lines("job_failed")] == [1, 2]


async def test_dead_jobs_can_be_brought_back(client, start_worker, eventually, tmp_path):
    """Retries that are used up, or given up, lead to the dead list; a requeued job has all of them again."""
    used_up = await client.enqueue("fail", {"failures": 2}, max_attempts=2, retry_policy=AT_ONCE)
    given_up = await client.enqueue("give-up", max_attempts=9)
    start_worker("w")

    async def dead():
        return {job.id for job in (await client.dead_page()).jobs}

    async def both_dead():
        return await dead() == {used_up.id, given_up.id}

    await eventually(both_dead, "the dead list")
    died = {each.id: await client.job(each.id) for each in (used_up, given_up)}
    assert (died[used_up.id].attempts, died[used_up.id].error.message) == (2, "attempt 2")
    assert (died[given_up.id].attempts, died[given_up.id].error.type) == (1, "eventjobs.GiveUp")
    (tmp_path / "go").touch()
    assert (await client.requeue(given_up.id)).attempts == 0
    await eventually(lambda: _succeeded(client, given_up.id), "the requeued job")
    assert await client.requeue_dead(kind="fail") == 1

    async def dead_again():
        return (await client.job(used_up.id)).lease_token == 4 and await dead() == {used_up.id}

    await eventually(dead_again, "the other to die again")


async def _succeeded(client, job_id):
    return (await client.job(job_id)).state == "succeeded"


def _numbered(number):
    return NewJob("answer" if number % 2 else "answer-in-thread", number)
