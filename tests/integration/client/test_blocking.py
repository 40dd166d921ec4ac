"""The blocking client: one client on one loop in one thread, from any thread and after any fork."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from eventjobs import BlockingClient, NewJob, Retry
from eventjobs.client import JobNotFound

QUICK = Retry(attempts=3, first_wait_seconds=0.01)


def client_threads() -> list[threading.Thread]:
    """The loops that run for blocking clients."""
    return [thread for thread in threading.enumerate() if thread.name == "eventjobs-client"]


async def test_the_producers_calls_work_from_many_threads(script, says, document, refuses):
    """All of them share one thread and its connections."""
    script.answer(says(document, 201))
    with BlockingClient(script.url, actor="web", retry=QUICK) as client:

        def produce(number):
            return client.enqueue("work", number, queue="q", idempotency_key=str(number)).id

        with ThreadPoolExecutor(8) as pool:
            loop = asyncio.get_running_loop()
            ids = await asyncio.gather(*(loop.run_in_executor(pool, produce, number) for number in range(40)))
        assert set(ids) == {document["id"]}
        assert sorted(asked.json["payload"] for asked in script.asked) == list(range(40))
        assert len(client_threads()) == 1
        for call in (lambda: client.job("id"), lambda: client.cancel("id", "r"), lambda: client.requeue("id")):
            assert (await asyncio.to_thread(call)).id == document["id"]
        script.answer(says({"jobs": [document], "created": 1}, 201))
        assert (await asyncio.to_thread(client.enqueue_many, [NewJob("work")])).created == 1
        script.answer(refuses(404, "job_not_found"))
        with pytest.raises(JobNotFound):
            await asyncio.to_thread(client.job, "id")
    assert client_threads() == []
    with pytest.raises(RuntimeError, match="closed"):
        client.stats()


async def test_closing_ends_the_calls_that_wait(script, hangs):
    """Nobody waits for ever on a client that is gone."""
    script.answer(hangs)
    client, ends = BlockingClient(script.url), []

    def wait() -> None:
        with pytest.raises(CancelledError) as caught:
            client.stats()
        ends.append(caught.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    async with asyncio.timeout(10):
        while not script.asked:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(client.close)
        await asyncio.to_thread(waiting.join, 10)
    assert len(ends) == 1


async def test_a_client_that_is_dropped_ends_its_thread(script, says, document):
    """Without close, garbage collection does it."""
    script.answer(says(document))
    client = BlockingClient(script.url)
    await asyncio.to_thread(client.job, "id")
    assert len(client_threads()) == 1
    del client
    gc.collect()
    async with asyncio.timeout(10):
        while client_threads():
            await asyncio.sleep(0.01)
    assert client_threads() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_process_has_a_thread_of_its_own(script, says, document):
    """A client at the top of a module serves a server that forks its workers after the first use."""
    script.answer(says(document))
    client = BlockingClient(script.url, retry=QUICK)
    await asyncio.to_thread(client.job, "parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(client.job("child").id).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        async with asyncio.timeout(20):
            answer = await asyncio.to_thread(pipe.read)
    os.waitpid(child, 0)
    assert json.loads(answer) == document["id"]
    assert [asked.path for asked in script.asked] == ["/jobs/parent", "/jobs/child"]
    await asyncio.to_thread(client.close)
