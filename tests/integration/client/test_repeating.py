"""The client repeats what is safe to repeat, within its budget, and never what was refused."""

from __future__ import annotations

import asyncio
import socket
import time
import traceback

import pytest
from structlog.testing import capture_logs

from eventjobs import Client, NewJob, Retry, Timeouts
from eventjobs.client import BadAnswer, Completion, JobNotFound, StaleToken, StorageFull, Unavailable, Unreachable

QUICK = Retry(attempts=4, first_wait_seconds=0.01, longest_wait_seconds=0.05)


async def test_an_enqueue_is_repeated_under_one_key(script, says, breaks, document):
    """A lost answer is asked for again; the made-up key keeps it one job."""
    script.answer(breaks, breaks, says(document, 201))
    async with Client(script.url, retry=QUICK) as client:
        job = await client.enqueue("work", {"n": 1})
        assert (job.id, job.payload) == (document["id"], {"n": 1})
        keys = [asked.json["idempotency_key"] for asked in script.asked]
        assert len(keys) == 3
        assert len(set(keys)) == 1
        await client.enqueue("work", {"n": 1})
        assert script.asked[-1].json["idempotency_key"] != keys[0]
        await client.enqueue("work", idempotency_key="mine")
        assert script.asked[-1].json["idempotency_key"] == "mine"


async def test_a_batch_is_repeated_under_its_keys(script, says, breaks, document):
    """Each job of a batch has a key of its own, the same at each attempt."""
    script.answer(breaks, says({"jobs": [document] * 3, "created": 3}, 201))
    async with Client(script.url, retry=QUICK) as client:
        done = await client.enqueue_many([NewJob("a"), NewJob("b", idempotency_key="mine"), NewJob("c")])
    assert (len(done.jobs), done.created) == (3, 3)
    first, second = ([job["idempotency_key"] for job in asked.json["jobs"]] for asked in script.asked)
    assert first == second
    assert first[1] == "mine"
    assert len(set(first)) == 3


async def test_a_lease_is_repeated_under_one_request_id(script, says, breaks):
    """A lost answer takes no second set of jobs; the next call does."""
    script.answer(breaks, says({"jobs": []}))
    async with Client(script.url, retry=QUICK) as client:
        assert await client.lease("w") == []
        await client.lease("w")
        await client.lease("w", request_id="mine")
    ids = [asked.json["request_id"] for asked in script.asked]
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == "mine"


@pytest.mark.parametrize("choice", [{}, {"limit": 10}, {"kind": "a"}, {"queue": "q"}, {"ids": ["i"], "limit": 1}])
async def test_a_requeue_of_whatever_is_dead_is_not_repeated(script, says, breaks, refuses, choice):
    """Once it may have been carried out: a second time would take further jobs."""
    async with Client(script.url, retry=QUICK) as client:
        for lost in (breaks, says(b"", 502, kind="text/html"), refuses(503, "shutting_down")):
            script.answer(lost, says({"requeued": 10}))
            script.asked.clear()
            with pytest.raises((Unreachable, Unavailable)):
                await client.requeue_dead(**choice)
            assert len(script.asked) == 1


async def test_a_requeue_that_was_not_carried_out_is_repeated(script, says, breaks, refuses):
    """Turned away at the door; or with ids, where a second time finds nothing more to do."""
    async with Client(script.url, retry=QUICK) as client:
        script.answer(refuses(503, "overloaded"), says({"requeued": 10}))
        assert await client.requeue_dead(limit=10) == 10
        script.answer(breaks, says({"requeued": 1}))
        assert await client.requeue_dead(ids=["i"], kind="a") == 1


async def test_an_erasure_is_repeated_unless_a_limit_would_take_further_jobs(script, says, breaks):
    """What a second time erases was asked for the first time, as long as no limit says how much."""
    async with Client(script.url, retry=QUICK) as client:
        script.answer(breaks, says({"erased": 3}))
        assert await client.erase_many(kind="a", older_than_seconds=1.5, reason="r") == 3
        script.answer(breaks, says({"erased": 3}))
        with pytest.raises(Unreachable):
            await client.erase_many(kind="a", limit=3)


async def test_a_requeue_that_was_never_sent_is_repeated():
    """A connection that is refused carried nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with Client(f"http://127.0.0.1:{port}", retry=QUICK) as client:
        with capture_logs() as lines, pytest.raises(Unreachable) as caught:
            await client.requeue_dead(limit=10)
    assert not caught.value.sent
    assert [line["event"] for line in lines] == ["request_repeated"]


async def test_not_now_is_asked_again_when_it_says(script, says, refuses, document):
    """Retry-After goes before the client's own patience."""
    script.answer(refuses(503, "overloaded", {"Retry-After": "1"}), says(document))
    async with Client(script.url, retry=QUICK) as client:
        await client.job(document["id"])
    first, second = script.asked
    assert 1.0 <= second.at - first.at < 2.5


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_gateway_without_a_coordinator_behind_it_is_asked_again(script, says, status, document):
    """Its answer is not the coordinator's."""
    script.answer(says(b"<html>bad gateway</html>", status, kind="text/html"), says(document))
    async with Client(script.url, retry=QUICK) as client:
        assert (await client.job(document["id"])).id == document["id"]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(404, "job_not_found", JobNotFound), (409, "stale_token", StaleToken), (507, "storage_full", StorageFull)],
)
async def test_a_refusal_is_final(script, refuses, status, code, kind):
    """It is raised at once and not asked for again."""
    script.answer(refuses(status, code))
    async with Client(script.url, retry=QUICK) as client:
        with pytest.raises(kind, match="why"):
            await client.complete("id", 1, "result")
    assert len(script.asked) == 1


async def test_the_budget_of_attempts_ends(script, breaks, refuses):
    """The last error is raised, with its cause."""
    script.answer(breaks)
    async with Client(script.url, retry=QUICK) as client:
        with pytest.raises(Unreachable, match="no answer from http://127.0.0.1") as caught:
            await client.cancel("id")
        assert caught.value.__cause__ is not None
        assert len(script.asked) == 4
        script.answer(refuses(503, "shutting_down"))
        with pytest.raises(Unavailable):
            await client.cancel("id")
        assert len(script.asked) == 8


async def test_without_a_coordinator_the_client_says_where_it_looked():
    """A refused connection is an Unreachable, in our own words and with a traceback that fits a screen."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with Client(f"http://127.0.0.1:{port}", retry=Retry.never()) as client:
        with pytest.raises(Unreachable) as caught:
            await client.health()
    assert str(caught.value) == f"no coordinator answers at http://127.0.0.1:{port}: connection refused"
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert len("".join(traceback.format_exception(caught.value)).splitlines()) < 40


async def test_a_name_of_no_host_is_told():
    """Where a name cannot be resolved, the resolver's own words are the reason."""
    async with Client("http://nowhere.invalid:8484", retry=Retry.never()) as client:
        with pytest.raises(Unreachable, match=r"^no coordinator answers at http://nowhere.invalid:8484: \w") as caught:
            await client.health()
    assert "ssl" not in str(caught.value)


async def test_an_answer_that_does_not_come_is_given_up(script, hangs):
    """Silence is bounded; a long-poll may take the time it asked for on top."""
    script.answer(hangs)
    async with Client(script.url, retry=Retry.never(), timeouts=Timeouts(answer_seconds=0.2)) as client:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            await client.stats()
        assert time.monotonic() - began < 2
        with pytest.raises(Unreachable):
            await client.lease("w", wait_seconds=0.5)
        assert 0.7 <= time.monotonic() - began < 4


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"not json", b'{"jobs": 1}', b"\xff", b"[" * 100_000])
async def test_an_answer_of_another_shape_is_not_believed(script, says, body):
    """Something else listens there."""
    script.answer(says(body))
    async with Client(script.url, retry=QUICK) as client:
        with pytest.raises(BadAnswer):
            await client.stats()
    assert len(script.asked) == 1


async def test_refusals_in_a_foreign_form_are_not_believed(script, says):
    """A redirect, a web server's 404 or a broken problem document is no word of a coordinator."""
    async with Client(script.url, retry=QUICK) as client:
        for step in (
            says(b"", 302, {"Location": "/elsewhere"}),
            says(b"<h1>404</h1>", 404, kind="text/html"),
            says(b"{", 409, kind="problem+json"),
            says({"title": "no code"}, 409, kind="problem+json"),
        ):
            script.answer(step)
            with pytest.raises(BadAnswer):
                await client.stats()


async def test_as_many_results_as_items_must_come(script, says):
    """Otherwise nobody knows which is whose."""
    script.answer(says({"results": []}))
    async with Client(script.url, retry=QUICK) as client:
        with pytest.raises(BadAnswer, match="1 items were sent"):
            await client.complete_many([Completion("id", 1)])


async def test_a_long_history_comes_whole(script, says):
    """It is read on after the last version, until nothing comes."""
    pages = [[1, 2, 3], [4, 5], []]
    script.answer(*(says({"events": [_event(version) for version in page]}) for page in pages))
    async with Client(script.url, retry=QUICK) as client:
        history = await client.history("id")
    assert [event.version for event in history] == [1, 2, 3, 4, 5]
    assert [asked.query for asked in script.asked] == [{}, {"after": "3"}, {"after": "5"}]


async def test_a_history_that_does_not_go_on_is_not_believed(script, says):
    """Versions have no gap; the same stretch again and again is no history."""
    script.answer(says({"events": [_event(1), _event(2)]}))
    async with Client(script.url, retry=QUICK) as client:
        with pytest.raises(BadAnswer, match="version 1 of id came after version 2"):
            await client.history("id")


def _event(version):
    return {
        "position": version * 7,
        "job_id": "id",
        "version": version,
        "type": "job_released",
        "format_version": 1,
        "time": "2030-01-01T07:00:00.000000Z",
        "actor": {"type": "worker", "id": "w"},
        "data": {},
    }


async def test_canceling_a_call_ends_it(script, hangs):
    """A long-poll in flight can be cut at any time."""
    script.answer(hangs)
    async with Client(script.url) as client:
        call = asyncio.create_task(client.lease("w", wait_seconds=60))
        async with asyncio.timeout(5):
            while not script.asked:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
