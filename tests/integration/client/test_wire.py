"""What goes over the wire: paths, headers, bodies; and what is made of the answers."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from msgspec import Raw

from eventjobs import Client, Retry
from eventjobs.client import IdempotencyKeyReused, InvalidRequest, InvalidValue, Renewal, Unavailable


async def test_a_request_says_who_asks_and_in_which_form(script, says, document):
    """The actor is a header; a body is JSON; a GET has none."""
    script.answer(says(document))
    async with Client(f"{script.url}/behind/a/path/", actor="billing 7") as client:
        await client.cancel(document["id"], "no longer needed")
        await client.job("../odd id?")
    cancel, job = script.asked
    assert (cancel.method, cancel.path) == ("POST", f"/behind/a/path/jobs/{document['id']}/cancel")
    assert cancel.headers["Eventjobs-Actor"] == "billing 7"
    assert cancel.headers["Content-Type"] == "application/json"
    assert cancel.headers["User-Agent"].startswith("eventjobs/")
    assert cancel.json == {"reason": "no longer needed"}
    assert (job.method, job.path, job.body) == ("GET", "/behind/a/path/jobs/../odd id?", b"")
    assert "Content-Type" not in job.headers


async def test_connections_may_be_opened_in_another_way(script, says, document):
    """The session a client is given is used, with the client's headers, and closed with the client."""
    opened = []

    def session(**options):
        opened.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), **options))
        return opened[0]

    script.answer(says(document))
    async with Client(script.url, actor="billing 7", session=session) as client:
        assert opened == []
        await client.job(document["id"])
        await client.job(document["id"])
        assert [each.closed for each in opened] == [False]
    assert opened[0].closed
    assert script.asked[1].headers["Eventjobs-Actor"] == "billing 7"


async def test_payload_and_result_keep_their_text_both_ways(script, document):
    """Digits, order and escapes survive; integers are exact as values too."""
    text = '{"b":1.0,"a":12345678901234567890123,"s":"\\u00e9"}'

    async def echo(asked, request):
        body = json.dumps({**document, "payload": 0, "result": 0}).replace('"payload": 0', f'"payload": {text}')
        return web.Response(text=body.replace('"result": 0', f'"result":{text}'), content_type="application/json")

    script.answer(echo)
    async with Client(script.url) as client:
        job = await client.enqueue("work", Raw(text.encode()))
    assert text.encode() in script.asked[0].body
    assert (job.payload_text, job.result_text) == (text, text)
    assert job.payload == job.result == {"b": 1.0, "a": 12345678901234567890123, "s": "é"}
    assert job.run_at == datetime(2030, 1, 1, 7, 0, 0, 1, tzinfo=UTC)


async def test_refusals_carry_what_the_coordinator_said(script, refuses, document):
    """The faults with their paths; the job that stands in the way."""
    script.answer(refuses(422, "invalid_request", errors=[{"path": "kind", "message": "is empty"}]))
    async with Client(script.url) as client:
        with pytest.raises(InvalidRequest) as caught:
            await client.enqueue("")
        assert [(fault.path, fault.message) for fault in caught.value.errors] == [("kind", "is empty")]
        script.answer(refuses(409, "idempotency_key_reused", job=document))
        with pytest.raises(IdempotencyKeyReused) as caught:
            await client.enqueue("work", idempotency_key="k")
        assert caught.value.job.id == document["id"]


@pytest.mark.parametrize("header", ["soon", "Wed, 21 Oct 2030 07:28:00 GMT", "-1", "", "²"])
async def test_a_retry_after_that_is_no_number_is_passed_over(script, refuses, header):
    """The client's own patience counts then."""
    script.answer(refuses(503, "overloaded", {"Retry-After": header}))
    async with Client(script.url, retry=Retry.never()) as client:
        with pytest.raises(Unavailable) as caught:
            await client.stats()
    assert caught.value.retry_after_seconds is None


async def test_health_is_asked_once(script, says, refuses):
    """Not ready is an answer."""
    async with Client(script.url) as client:
        script.answer(refuses(503, "shutting_down", {"Retry-After": "60"}))
        assert await client.health() is False
        script.answer(says({"status": "ready"}))
        assert await client.health() is True
    assert [asked.path for asked in script.asked] == ["/readyz", "/readyz"]


async def test_lists_are_walked_page_by_page(script, says, document):
    """Cursors are passed on; the choice stays."""
    pages = [says({"jobs": [document], "next_cursor": cursor}) for cursor in ("a/b&c", "x", None)]
    async with Client(script.url) as client:
        script.answer(*pages)
        assert len([job async for job in client.jobs(state="dead", queue="q")]) == 3
        assert [asked.query.get("cursor") for asked in script.asked] == [None, "a/b&c", "x"]
        choices = {(asked.path, asked.query["state"], asked.query["queue"]) for asked in script.asked}
        assert choices == {("/jobs", "dead", "q")}
        script.answer(*pages)
        assert len([job async for job in client.dead(kind="work")]) == 3
        assert (script.asked[-1].path, script.asked[-1].query) == ("/dead", {"kind": "work", "cursor": "x"})


async def test_renewals_and_empty_lists_are_sent_as_given(script, says):
    """An empty list is no absent one: the coordinator is to refuse it."""
    script.answer(says({"jobs": []}))
    async with Client(script.url) as client:
        await client.lease("w", queues=[], kinds=["a"])
        assert script.asked[0].json["queues"] == []
        assert script.asked[0].json["kinds"] == ["a"]
        await client.lease("w")
        assert "queues" not in script.asked[1].json
        script.answer(says({"results": [{"id": "id", "ok": False, "problem": {"code": "stale_token", "status": 409}}]}))
        (result,) = await client.renew_many([Renewal("id", 3, 2.5)])
        assert (result.ok, result.problem.code) == (False, "stale_token")
        assert script.asked[-1].json == {"jobs": [{"id": "id", "token": 3, "lease_seconds": 2.5}]}


async def test_nothing_is_sent_for_a_value_that_is_none(script, says):
    """A value JSON cannot say is told before anything leaves."""
    script.answer(says({}))
    async with Client(script.url) as client:
        for value in ({1, 2}, float("nan"), "\ud800"):
            with pytest.raises(InvalidValue):
                await client.enqueue("work", value)
        with pytest.raises(InvalidValue):
            await client.enqueue("work", delay_seconds=float("inf"))
    assert script.asked == []


def event_text(position):
    """A message of the event stream."""
    event = {
        "position": position,
        "job_id": "id",
        "version": position,
        "type": "job_canceled",
        "format_version": 1,
        "time": "2030-01-01T07:00:00.000000Z",
        "actor": {"type": "operator", "id": "ada"},
        "data": {"reason": None},
    }
    return f"id: {position}\nevent: job_canceled\ndata: {json.dumps(event)}\n\n".encode()


async def test_a_tail_goes_on_where_it_broke_off(script, refuses):
    """After a cut within a message, a clean end, and a coordinator that is away: no event comes twice, none is lost."""

    def streams(*chunks, cut=False):
        async def step(asked, request):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            if cut:
                await asyncio.sleep(0.05)
                request.transport.abort()
            return response

        return step

    script.answer(
        streams(b": hello\n\n", event_text(6), event_text(7)[:40], cut=True),
        refuses(503, "shutting_down"),
        streams(event_text(7) + event_text(8)),
        streams(event_text(9)),
    )
    seen = []
    async with Client(script.url, retry=Retry(first_wait_seconds=0.01)) as client, asyncio.timeout(20):
        async for event in client.tail(after=5):
            seen.append((event.position, event.actor.id, event.data))
            if event.position == 9:
                break
    assert seen == [(position, "ada", {"reason": None}) for position in (6, 7, 8, 9)]
    assert [asked.headers["Last-Event-ID"] for asked in script.asked] == ["5", "6", "6", "8"]
    assert {asked.headers["Accept"] for asked in script.asked} == {"text/event-stream"}


async def test_a_tail_gives_up_with_its_budget(script, refuses):
    """When no stream can be had any more, the reader is told."""
    script.answer(refuses(503, "shutting_down"))
    async with Client(script.url, retry=Retry(attempts=3, first_wait_seconds=0.01)) as client:
        with pytest.raises(Unavailable):
            async for _ in client.tail(after=0):
                pytest.fail("there was no event")
    assert len(script.asked) == 3
