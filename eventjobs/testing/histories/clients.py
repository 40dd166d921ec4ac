"""Clients that speak to a coordinator over HTTP and note every call and its return. They never ask twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from attrs import frozen

from eventjobs.testing.histories.operations import Answer, Ask, Lost, Operation, Refusal
from eventjobs.testing.histories.recorder import LeaseCall, Recorder

TIMES = ("created_at", "updated_at", "run_at", "lease_expires_at", "finished_at")
MANY = ("renew", "complete", "fail")
"""Operations that one request can carry many of."""
LIMIT = 1_000
"""Events asked for at once."""
UNAVAILABLE = 503
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Outcome = Answer | Refusal | Lost


class NotSent(Exception):
    """There was nobody to take the request: it has no place in a history."""


@frozen(eq=False)
class RecordingClient:
    """One client with a name. What it asks and hears is noted by the recorder. `url` may be the addresses of several
    coordinators of one store with commas between, which it asks in turn.

    `patience_seconds` is how long it waits for an answer: one that takes longer is lost. An answer that nobody should
    get, such as 500, raises AssertionError.
    """

    name: str
    url: str
    session: aiohttp.ClientSession
    recorder: Recorder

    async def ask(self, target: str, ask: Ask, patience_seconds: float = 60) -> Outcome:
        """One operation but a lease; `target` is the job's id, or for an enqueue its key. Raises NotSent."""
        method, path, body = _request(target, ask)
        called = self.recorder.now()
        status, document = await self._send(method, path, body, patience_seconds)
        outcome = _outcome(status, document, ask)
        self.recorder.note(target, Operation(self.name, ask, called, self.recorder.now(), outcome))
        return outcome

    async def ask_many(self, asked: Sequence[tuple[str, Ask]], patience_seconds: float = 60) -> list[Outcome]:
        """Operations of one name, one of MANY, in one request. Raises NotSent."""
        body = {"jobs": [{"id": job_id, **_body(ask)} for job_id, ask in asked]}
        called = self.recorder.now()
        status, document = await self._send("POST", f"/{asked[0][1].name}", body, patience_seconds)
        returned = self.recorder.now()
        if isinstance(document, dict) and "results" in document:
            outcomes = [_result(result) for result in document["results"]]
        else:
            outcomes = [_outcome(status, document, asked[0][1])] * len(asked)
        for (job_id, ask), outcome in zip(asked, outcomes, strict=True):
            self.recorder.note(job_id, Operation(self.name, ask, called, returned, outcome))
        return outcomes

    async def lease(
        self, ask: Ask, max_jobs: int = 1, wait_seconds: float = 0, patience_seconds: float = 60
    ) -> list[Mapping[str, Any]] | Lost:
        """Lease jobs of any queue and kind, under a request id. Raises NotSent."""
        body = {
            "worker": ask.worker,
            "request_id": ask.request_id,
            "lease_seconds": ask.seconds,
            "max_jobs": max_jobs,
            "wait_seconds": wait_seconds,
        }
        called = self.recorder.now()
        status, document = await self._send("POST", "/lease", body, patience_seconds)
        outcome = _outcome(status, document, ask)
        assert not isinstance(outcome, Refusal), f"a lease was refused: {document}"
        jobs = None if isinstance(outcome, Lost) else tuple(_with_times(job) for job in document["jobs"])
        # another coordinator may have a job locked for a moment, and then it is passed over
        room = jobs is not None and len(jobs) < max_jobs and "," not in self.url
        self.recorder.note_lease(LeaseCall(self.name, ask, called, self.recorder.now(), jobs, room))
        return outcome if jobs is None else list(jobs)

    async def events(self, job_id: str) -> list[dict[str, Any]]:
        """The log's events of a job, their times as integers. Not noted."""
        return (await self._events(f"/jobs/{job_id}/events"))[0]

    async def log(self) -> list[dict[str, Any]]:
        """The whole log in order, the events' times as integers. Not noted."""
        found: list[dict[str, Any]] = []
        while True:
            events, document = await self._events(f"/events?after={len(found)}&limit={LIMIT}")
            found += events
            if len(found) >= document["head"]["size"]:
                return found

    async def _events(self, path: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        status, document = await self._send("GET", path, None, 60)
        assert status == 200, document
        return [{**event, "time": microseconds(event["time"])} for event in document["events"]], document

    async def _send(self, method: str, path: str, body: object, patience_seconds: float) -> tuple[int | None, Any]:
        """Status and document of the answer; (None, why) when it was lost."""
        timeout = aiohttp.ClientTimeout(total=patience_seconds)
        urls = self.url.split(",")
        url = urls[len(self.recorder) % len(urls)]
        try:
            async with self.session.request(method, url + path, json=body, timeout=timeout) as answer:
                return answer.status, await answer.json(content_type=None)
        except aiohttp.ClientConnectorError as error:
            raise NotSent(str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            return None, type(error).__name__


def microseconds(time: str) -> int:
    """A time of the wire as microseconds since 1970 UTC."""
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(microseconds=1)


def _request(target: str, ask: Ask) -> tuple[str, str, object]:
    """Method, path and body."""
    match ask.name:
        case "enqueue":
            return "POST", "/jobs", dict(ask.job)
        case "get":
            return "GET", f"/jobs/{target}", None
    return "POST", f"/jobs/{target}/{ask.name}", _body(ask)


def _body(ask: Ask) -> dict[str, Any]:
    match ask.name:
        case "renew":
            return {"token": ask.token, "lease_seconds": ask.seconds}
        case "complete":
            return {"token": ask.token, "result": ask.result}
        case "fail":
            fail = {"token": ask.token, "error": ask.error, "retry": ask.retry}
            return fail | ({} if ask.delay_seconds is None else {"retry_in_seconds": ask.delay_seconds})
        case "release":
            return {"token": ask.token}
    return {}


def _outcome(status: int | None, document: Any, ask: Ask) -> Outcome:
    """What the client knows. Raises AssertionError for an answer that nobody should get."""
    if status is None:
        return Lost(document)
    if status in (200, 201):
        return Answer(_with_times(document), status == 201 if ask.name == "enqueue" else None)
    if status == UNAVAILABLE:
        return Lost(document["code"])
    assert status in (404, 409), f"{status}: {document}"
    return Refusal(document["code"])


def _result(result: Mapping[str, Any]) -> Outcome:
    """The same of one of many."""
    if not result["ok"]:
        return Refusal(result["problem"]["code"])
    return Answer(_with_times({name: value for name, value in result.items() if name != "ok"}))


def _with_times(document: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: microseconds(document[name]) for name in TIMES if document.get(name) is not None}
    return {**document, **times}
