"""Several coordinators of one store: a client asks one, and turns to the next when it does not answer."""

from __future__ import annotations

import socket

import pytest

from eventjobs import Client, Retry
from eventjobs.client import InvalidValue, JobNotFound, Unavailable, Unreachable

QUICK = Retry(attempts=4, first_wait_seconds=0.01, longest_wait_seconds=0.05)


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_the_next_is_asked_when_one_is_not_there(script, says, document, nobody):
    """The same request goes to the next, and those after it go there at once."""
    script.answer(says(document, 201))
    async with Client(f"{nobody}, {script.url}/there", retry=QUICK) as client:
        assert (await client.enqueue("work")).id == document["id"]
        await client.enqueue("work")
    assert [asked.path for asked in script.asked] == ["/there/jobs", "/there/jobs"]


async def test_the_next_is_asked_when_one_breaks_off_or_says_not_now(script, says, breaks, refuses, document):
    """Around, in the order given; the key of the request stays the same."""
    script.answer(breaks, refuses(503, "shutting_down"), says(document, 201))
    async with Client(f"{script.url}/a,{script.url}/b", retry=QUICK) as client:
        await client.enqueue("work")
    assert [asked.path for asked in script.asked] == ["/a/jobs", "/b/jobs", "/a/jobs"]
    assert len({asked.json["idempotency_key"] for asked in script.asked}) == 1


async def test_a_refusal_is_no_reason_to_ask_another(script, says, refuses, document):
    """What one says of a job, all say."""
    script.answer(refuses(404, "job_not_found"), says(document))
    async with Client(f"{script.url}/a,{script.url}/b", retry=QUICK) as client:
        with pytest.raises(JobNotFound):
            await client.job(document["id"])
        await client.job(document["id"])
    assert {asked.path.split("/")[1] for asked in script.asked} == {"a"}


async def test_without_retries_the_next_call_goes_to_the_next(script, says, document, nobody):
    """As the worker has it, which repeats by itself."""
    script.answer(says(document, 201))
    async with Client(f"{nobody},{script.url}", retry=Retry.never()) as client:
        with pytest.raises((Unreachable, Unavailable), match=nobody):
            await client.enqueue("work")
        await client.enqueue("work")


@pytest.mark.parametrize("urls", ["", ",", "http://a,", "http://a,b", "http://a,,http://b"])
def test_each_of_them_must_be_an_address(urls):
    """What is none is named."""
    with pytest.raises(InvalidValue, match="is not an address"):
        Client(urls)
