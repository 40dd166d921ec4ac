"""The client against a real coordinator: every call does what it says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Raw

from eventjobs import BlockingClient, Client, NewJob
from eventjobs.client import (
    Completion,
    Failure,
    IdempotencyKeyReused,
    IllegalTransition,
    InvalidRequest,
    JobNotFound,
    Renewal,
    StaleToken,
)


async def test_a_job_goes_its_way_by_single_calls(client):
    """Enqueue, lease, renew, fail, lease again, release, lease again, complete: each answer shows the job."""
    text = '{"b":1.0,"a":12345678901234567890123,"s":"\\u00e9"}'
    policy = {"type": "constant", "base": 0}
    job = await client.enqueue("work", Raw(text.encode()), queue="q", priority=7, retry_policy=policy)
    assert (job.state, job.priority, job.payload_text) == ("queued", 7, text)
    (leased,) = await client.lease("w", queues=["q"], kinds=["work"], lease_seconds=20)
    assert (leased.id, leased.state, leased.lease_owner, leased.lease_token) == (job.id, "running", "w", 1)
    renewed = await client.renew(job.id, 1, 60)
    assert renewed.lease_expires_at > leased.lease_expires_at
    failed = await client.fail(job.id, 1, {"type": "T", "message": "m", "traceback": "t"})
    assert (failed.state, failed.error.type, failed.error.message, failed.error.traceback) == ("failed", "T", "m", "t")
    await client.lease("w", wait_seconds=5)
    assert (await client.release(job.id, 2)).attempts == 1
    await client.lease("w")
    done = await client.complete(job.id, 3, {"ok": [1, None]})
    assert (done.state, done.result, done.lease_token) == ("succeeded", {"ok": [1, None]}, 3)
    assert await client.complete(job.id, 3, {"ok": [1, None]}) == done == await client.job(job.id)
    assert [event.version for event in await client.history(job.id)] == list(range(1, 9))
    with pytest.raises(StaleToken, match="token 2"):
        await client.complete(job.id, 2)
    with pytest.raises(IllegalTransition):
        await client.cancel(job.id)


async def test_many_at_once_are_answered_one_by_one(client):
    """Bulk calls report each item in order, refusals among them."""
    done = await client.enqueue_many([NewJob("work", number) for number in range(5)])
    assert done.created == 5
    ids = [job.id for job in done.jobs]
    assert [job.payload for job in await client.lease("w", max_jobs=10)] == list(range(5))
    renewed = await client.renew_many([Renewal(ids[0], 1, 90), Renewal(ids[1], 9)])
    assert [result.ok for result in renewed] == [True, False]
    assert renewed[1].problem.code == "stale_token"
    settled = await client.complete_many([Completion(ids[0], 1, "r"), Completion("no-such-id", 1)])
    assert [(result.ok, result.state) for result in settled] == [(True, "succeeded"), (False, None)]
    failures = [Failure(ids[1], 1, "e", retry=False), Failure(ids[2], 1, "e", retry_in_seconds=60)]
    failed = await client.fail_many(failures)
    assert [result.state for result in failed] == ["dead", "failed"]


async def test_a_key_makes_one_job(client):
    """The same request again is the same job; another one is refused and shows it."""
    first = await client.enqueue("work", 1, idempotency_key="k")
    assert await client.enqueue("work", 1, idempotency_key="k") == first
    with pytest.raises(IdempotencyKeyReused) as caught:
        await client.enqueue("work", 2, idempotency_key="k")
    assert caught.value.job == first
    assert (await client.enqueue("work")).id != (await client.enqueue("work")).id


async def test_refusals_say_what_is_wrong(client):
    """Every fault with its path; an unknown job by its own class."""
    with pytest.raises(InvalidRequest) as caught:
        await client.enqueue("", priority=1_000, queue="no spaces")
    assert {fault.path for fault in caught.value.errors} == {"kind", "priority", "queue"}
    with pytest.raises(JobNotFound):
        await client.job("no-such-id")


async def test_lists_dead_jobs_and_schedules(client):
    """Walks go over all pages; dead jobs are requeued one by one or in bulk; a scheduled job waits."""
    later = datetime.now(UTC) + timedelta(hours=1)
    scheduled = await client.enqueue("later", run_at=later)
    assert scheduled.run_at == later
    jobs = (await client.enqueue_many([NewJob("work", number, max_attempts=1) for number in range(250)])).jobs
    assert [job.payload async for job in client.jobs(kind="work")] == list(range(250))[::-1]
    page = await client.jobs_page(kind="work", limit=3)
    assert [job.payload for job in page.jobs] == [249, 248, 247]
    assert (await client.jobs_page(kind="work", limit=3, cursor=page.next_cursor)).jobs[0].payload == 246
    leased = await client.lease("w", max_jobs=120)
    await client.fail_many([Failure(job.id, job.lease_token, "e") for job in leased])
    assert len([job async for job in client.dead(kind="work")]) == 120
    assert len((await client.dead_page(limit=7)).jobs) == 7
    assert (await client.requeue(jobs[0].id)).state == "queued"
    assert await client.requeue_dead(kind="work", limit=100) == 100
    assert await client.requeue_dead() == 19
    assert (await client.cancel(jobs[0].id, "enough")).state == "canceled"
    stats = await client.stats()
    assert (stats.jobs["queued"], stats.jobs["canceled"], stats.kinds["later"]["queued"]) == (250, 1, 1)
    assert await client.lease("w", kinds=["later"]) == []


async def test_the_log_is_read_and_followed_through_a_restart(coordinator, client):
    """A tail sees every event once and in order, also while the coordinator is away in between."""
    async with Client(coordinator.url, actor="auditor") as other:
        await other.enqueue("work", 1)
    seen = []

    async def follow():
        async for event in client.tail(after=0):
            seen.append(event)
            if event.position == 3:
                return

    following = asyncio.create_task(follow())
    async with asyncio.timeout(30):
        while not seen:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(coordinator.restart)
        await client.enqueue("work", 2)
        await client.enqueue("work", 3)
        await following
    assert [event.position for event in seen] == [1, 2, 3]
    assert (seen[0].actor.type, seen[0].actor.id, seen[0].data["kind"]) == ("producer", "auditor", "work")
    page = await client.events(after=1, limit=1)
    assert page.events == [seen[1]]
    assert page.head == await client.head() == (await client.stats()).head
    assert page.head.size == 3
    assert await client.health() is True
    assert "eventjobs_jobs_processed_total" in await client.metrics()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            async for event in client.tail():
                pytest.fail(f"from now on nothing happened, yet {event} came")


async def test_a_producer_without_a_loop(coordinator):
    """The blocking client puts jobs in and looks at them."""

    def produce():
        with BlockingClient(coordinator.url, actor="django") as client:
            job = client.enqueue("work", {"n": 1}, delay_seconds=60)
            assert client.job(job.id) == job
            assert client.cancel(job.id).state == "canceled"
            assert client.enqueue_many([NewJob("work"), NewJob("work")]).created == 2
            with pytest.raises(IllegalTransition):
                client.requeue(job.id)
            return client.stats().jobs["queued"]

    assert await asyncio.to_thread(produce) == 2
