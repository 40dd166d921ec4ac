"""GET /events: stretches of the log with its head, and the stream that goes on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest
from structlog.testing import capture_logs

from eventjobs.api import event_stream


async def page(api, query: str = "") -> dict:
    answer = await api.call("GET", f"/events{query}")
    assert answer.status == 200, answer
    return answer.json


async def test_an_empty_log_has_the_head_of_nothing(api):
    """SHA-256 of no bytes."""
    root = base64.b64encode(hashlib.sha256(b"").digest()).decode()
    assert await page(api) == {"events": [], "head": {"size": 0, "root": root}}


async def test_a_stretch_follows_the_position_asked_for(api):
    """In order, at most `limit`; beyond the end there is nothing, however far."""
    for _ in range(5):
        await api.enqueue()
    first = await page(api)
    assert [event["position"] for event in first["events"]] == [1, 2, 3, 4, 5]
    assert first["head"]["size"] == 5
    assert (await page(api, "?after=2&limit=2"))["events"] == first["events"][2:4]
    for after in (5, 6, 2**63 - 1):
        assert (await page(api, f"?after={after}")) == {"events": [], "head": first["head"]}
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 200})
    assert len((await page(api))["events"]) == 100
    assert len((await page(api, "?limit=1000"))["events"]) == 205


async def test_wrong_positions_are_faults(api):
    """In query and header, and only where the header has a meaning."""
    assert set((await api.call("GET", "/events?after=-1&limit=1001&x=1")).faults()) == {"after", "limit", "x"}
    stream = {"Accept": "text/event-stream", "Last-Event-ID": "x"}
    assert set((await api.call("GET", "/events?after=x", headers=stream)).faults()) == {"after", "Last-Event-ID"}
    assert (await api.call("GET", "/events", headers={"Last-Event-ID": "x"})).status == 200


class Stream:
    """A reader of the event stream."""

    def __init__(self, response) -> None:
        self._response = response

    async def message(self) -> dict[str, str] | str:
        """The next message by its fields, or the next comment; "" at the end."""
        lines = []
        while line := (await asyncio.wait_for(self._response.content.readline(), 10)).decode():
            if line == "\n":
                break
            lines.append(line.rstrip("\n"))
        if not lines or lines[0].startswith(":"):
            return lines[0] if lines else ""
        return dict(line.split(": ", 1) for line in lines)


@asynccontextmanager
async def streaming(api, query: str = "", last_id: int | None = None, session=None):
    headers = {"Accept": "text/html, text/event-stream;q=0.9"}
    if last_id is not None:
        headers["Last-Event-ID"] = str(last_id)
    async with (session or api.session).get(f"{api.base}/events{query}", headers=headers) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Stream(response)


async def test_the_stream_sends_what_is_there_and_what_comes(api):
    """A message has position, type and the event as it is elsewhere."""
    await api.enqueue()
    async with streaming(api) as stream:
        messages = [await stream.message()]
        for _ in range(3):
            await api.enqueue()
            messages.append(await stream.message())
        events = (await page(api))["events"]
        assert [int(message["id"]) for message in messages] == [1, 2, 3, 4]
        assert {message["event"] for message in messages} == {"job_enqueued"}
        assert [orjson.loads(message["data"]) for message in messages] == events


async def test_the_stream_resumes(api):
    """After the last id seen, which wins over `after`; a place in the future is waited for."""
    for _ in range(3):
        await api.enqueue()
    async with streaming(api, "?after=1") as stream:
        assert (await stream.message())["id"] == "2"
    for after in (0, 1, 9):
        async with streaming(api, f"?after={after}", last_id=2) as stream:
            assert (await stream.message())["id"] == "3"
    async with streaming(api, last_id=4) as stream:
        await api.enqueue()
        await api.enqueue()
        assert (await stream.message())["id"] == "5"


async def test_a_stream_with_a_limit_ends(api, monkeypatch):
    """After so many events, in whatever pieces."""
    monkeypatch.setattr(event_stream, "CHUNK_RECORDS", 2)
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 9})
    async with streaming(api, "?limit=5") as stream:
        assert [(await stream.message())["id"] for _ in range(5)] == list("12345")
        assert await stream.message() == ""


async def test_an_idle_stream_carries_comments(api, monkeypatch):
    """So that both ends learn of a broken connection; the first bytes come without waiting for an event."""
    monkeypatch.setattr(event_stream, "STREAM_COMMENT_SECONDS", 0.01)
    async with streaming(api) as stream:
        assert [await stream.message() for _ in range(3)] == [":"] * 3


async def test_a_busy_stream_carries_comments_too(api, monkeypatch):
    """By the clock, not by the lack of events."""
    monkeypatch.setattr(event_stream, "STREAM_COMMENT_SECONDS", 0.0)
    monkeypatch.setattr(event_stream, "CHUNK_RECORDS", 1)
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 3})
    async with streaming(api) as stream:
        kinds = [type(await stream.message()) for _ in range(6)]
    assert kinds == [dict, str] * 3


async def test_a_busy_stream_lets_others_in(api, monkeypatch, turns):
    """Between two pieces whatever else is ready gets its turn, though no write has to wait."""
    monkeypatch.setattr(event_stream, "CHUNK_RECORDS", 1)
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 7})
    turns.clear()
    async with streaming(api, "?limit=7") as stream:
        while await stream.message():
            pass
    assert turns == ["read", "other"] * 7


async def test_draining_ends_the_stream(api):
    """After everything that is in the log was sent."""
    async with streaming(api) as stream:
        await api.enqueue()
        api.coordinator.drain()
        assert (await stream.message())["id"] == "1"
        assert await stream.message() == ""


@pytest.fixture
async def stream_over(monkeypatch) -> asyncio.Future:
    """The transport of a stream, once the stream is over for whatever reason."""
    over, send = asyncio.get_running_loop().create_future(), event_stream.EventStream.send

    async def told_send(stream, request):
        transport = request.transport
        try:
            return await send(stream, request)
        finally:
            over.set_result(transport)

    monkeypatch.setattr(event_stream.EventStream, "send", told_send)
    return over


async def test_a_reader_that_leaves_is_no_error(api, stream_over, caplog):
    """Its stream ends with the next thing there is to send, and the log has no complaint."""
    with capture_logs() as logs:
        async with aiohttp.ClientSession() as session, streaming(api, session=session):
            pass
        while not stream_over.done():
            await api.enqueue()
        await api.call("GET", "/healthz")
    complaints = [line for line in logs if line["log_level"] != "debug"]
    assert complaints + [record for record in caplog.records if record.name == "aiohttp.server"] == []


async def test_a_reader_that_does_not_read_is_cut_off(api, stream_over, monkeypatch):
    """When a piece finds no room for too long, its connection is broken off, whatever is still on the way."""
    monkeypatch.setattr(event_stream, "STREAM_WRITE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(event_stream, "_chunk", lambda view, after, wanted: (1, b"x" * 65_536))  # without end
    host, port = api.base.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), limit=1)
    writer.write(b"GET /events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
    transport = await asyncio.wait_for(stream_over, 10)
    assert transport.is_closing()
    assert transport.get_write_buffer_size() == 0
    writer.close()


async def test_a_head_request_gets_no_stream(api, stream_over):
    """HEAD answers with the headers alone, and is over."""
    answer = await api.call("HEAD", "/events", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Type"] == "text/event-stream"
    await asyncio.wait_for(stream_over, 10)


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
async def test_others_get_json(api, accept):
    """The stream has to be asked for."""
    answer = await api.call("GET", "/events", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == "application/json"
