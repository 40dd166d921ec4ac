"""Workers are stopped by real signals: in good order by the first, at once by the second."""

from __future__ import annotations

import signal
import time

import pytest

FOR_EVER = ("hold-for-ever", "hold-a-thread-for-ever")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stopped_worker_hands_back_what_it_could_not_finish(
    client, start_worker, history, eventually, tmp_path, number
):
    """What ends within the time of grace is completed; the rest is queued again, its attempt not counted."""
    finishes = await client.enqueue("hold", max_attempts=1)
    left = [await client.enqueue(kind, max_attempts=1) for kind in FOR_EVER]
    worker = start_worker("w", grace_seconds=1)
    for job in (finishes, *left):
        await eventually(lambda job=job: worker.has_started(job.id), "all to start")
    worker.send(number)
    await eventually(lambda: worker.lines("worker_stopping"), "the worker to notice")
    waiting = await client.enqueue("answer")
    (tmp_path / "go").touch()
    assert worker.wait(15) == 0
    assert (await client.job(finishes.id)).result == "w"
    for job in left:
        job = await client.job(job.id)
        assert (job.state, job.attempts, job.lease_token, job.error) == ("queued", 0, 1, None)
        assert [kind for kind, _ in await history(job.id)][-1] == "lease_released"
    unheard = await client.job(waiting.id)  # may have met the cut-off request for jobs, and was handed back then
    assert (unheard.state, unheard.attempts) == ("queued", 0) and not worker.has_started(waiting.id)
    assert worker.lines("run_returned")
    assert worker.lines("worker_stopped")[0]["held"] == 0
    start_worker("next", concurrency=1)
    await eventually(lambda: _token(client, left[0].id, 2), "the next worker to take the job at once", 5)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_worker_at_once(client, start_worker, eventually, second):
    """Whatever its handlers do, and however long the grace is."""
    jobs = [await client.enqueue(kind) for kind in FOR_EVER]
    worker = start_worker("w", grace_seconds=3_600)
    for job in jobs:
        await eventually(lambda job=job: worker.has_started(job.id), "all to start")
    worker.send(signal.SIGTERM)
    await eventually(lambda: worker.lines("worker_stopping"), "the first signal")
    began = time.monotonic()
    worker.send(second)
    assert worker.wait(10) == -second
    assert time.monotonic() - began < 5
    for job in jobs:
        assert (await client.job(job.id)).state == "running"


async def test_a_handler_that_blocks_everything_cannot_hold_off_a_second_signal(client, start_worker, eventually):
    """Signals are heard while a handler blocks the event loop."""
    job = await client.enqueue("block")
    worker = start_worker("w")
    await eventually(lambda: worker.has_started(job.id), "the handler")
    worker.send(signal.SIGTERM)

    def ended():
        worker.send(signal.SIGTERM)
        return not worker.running

    await eventually(ended, "the end", 10)
    assert worker.wait(1) == -signal.SIGTERM


async def test_an_idle_worker_stops_at_once_and_takes_nothing(client, start_worker, eventually):
    """A request for jobs that is held open is cut off and not waited for."""
    worker = start_worker("w", poll_seconds=60)
    await eventually(lambda: worker.lines("worker_started"), "the start")
    job = await client.enqueue("answer")
    await eventually(lambda: worker.lines("job_completed"), "the worker to be idle again")
    assert worker.terminate(10) == 0
    after = await client.enqueue("answer")
    assert (await client.job(job.id)).state == "succeeded"
    assert (await client.job(after.id)).lease_token == 0


async def test_a_worker_stops_without_a_coordinator(coordinator, start_worker, eventually):
    """An outage does not keep it from ending."""
    worker = start_worker("w", grace_seconds=1)
    await eventually(lambda: worker.lines("worker_started"), "the start")
    coordinator.kill()
    await eventually(lambda: worker.lines("coordinator_unreachable"), "the outage")
    assert worker.terminate(15) == 0


async def test_a_worker_that_is_not_served_ends_with_the_reason(start_worker, eventually):
    """A name that the coordinator refuses is a mistake in the program: it ends, and says what is wrong."""
    worker = start_worker("w" * 200, queues=["no such name: \u00e9"])
    assert worker.wait(20) == 1
    assert "InvalidRequest" in worker.text()
    assert "queues[0]" in worker.text()


async def _token(client, job_id, token):
    return (await client.job(job_id)).lease_token == token
