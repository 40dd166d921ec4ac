"""What the tests of histories share: a way to write one by hand, and the judge of a crowd's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from eventjobs.testing.histories import (
    Answer,
    Ask,
    History,
    Lost,
    Operation,
    Recorder,
    RecordingClient,
    Refusal,
    check,
    differences,
)
from eventjobs.testing.histories.crowd import Crowd

Judge = Callable[[Crowd], Awaitable[int]]

ASK_FIELDS = {"job", "worker", "request_id", "token", "seconds", "result", "error", "retry", "delay_seconds"}
TIMES = {"at": "updated_at", "run_at": "run_at", "expires_at": "lease_expires_at"}
JOB = {"kind": "k", "max_attempts": 2, "retry_policy": {"type": "constant", "base": 5}}


def micro(seconds: float) -> int:
    """Seconds in microseconds."""
    return round(seconds * 1_000_000)


class Story:
    """A history in the making. Times are seconds since its start, `at` is the time of the operation's event.

    What is asked and what the answer shows are told apart by their names: `result` and `error` are asked, with
    `shown_` before them they are shown. A change without `at` takes place in the middle of call and return.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def ok(self, name: str, called: float, returned: float, **more: Any) -> Story:
        """An operation that was answered as done."""
        ask = {field: more.pop(field) for field in ASK_FIELDS & more.keys()}
        created = more.pop("created", None)
        if name not in ("get", "enqueue") and "at" not in more:
            more["at"] = (called + returned) / 2
        document = {TIMES.get(field, field): micro(value) if field in TIMES else value for field, value in more.items()}
        for shown in ("result", "error"):
            if f"shown_{shown}" in document:
                document[shown] = document.pop(f"shown_{shown}")
        return self._add(name, ask, called, returned, Answer(document, created))

    def no(self, name: str, called: float, returned: float, code: str, **ask: Any) -> Story:
        """An operation that was refused."""
        return self._add(name, ask, called, returned, Refusal(code))

    def lost(self, name: str, called: float, returned: float, **ask: Any) -> Story:
        """An operation whose answer was lost."""
        return self._add(name, ask, called, returned, Lost("connection lost"))

    def enqueued(self, **more: Any) -> Story:
        """The beginning of most stories: a job with two attempts that waits five seconds between them."""
        return self.ok("enqueue", 0, 1, job={**JOB, **more}, created=True, at=0.5, state="queued", lease_token=0)

    def leased(self, called: float, token: int, seconds: float = 10, **more: Any) -> Story:
        """A lease that was granted half a second after its call."""
        ask = {"worker": f"w{token}", "seconds": seconds, **more}
        shown = {"state": "running", "lease_token": token, "expires_at": called + 0.5 + seconds}
        return self.ok("lease", called, called + 1, at=called + 0.5, **shown | ask)

    def history(self) -> History:
        return History("by hand", tuple(self.operations))

    def _add(
        self, name: str, ask: dict[str, Any], called: float, returned: float, outcome: Answer | Refusal | Lost
    ) -> Story:
        if name == "enqueue":
            ask.setdefault("job", JOB)
        client = f"c{len(self.operations)}"
        self.operations.append(Operation(client, Ask(name=name, **ask), micro(called), micro(returned), outcome))
        return self


@pytest.fixture
def story() -> Callable[[], Story]:
    """Begins a history that is written by hand."""
    return Story


@pytest.fixture
def judge() -> Judge:
    """Judges what a crowd saw, job by job, and beside the log; how many leases ran out in the orders that were found.

    The log holds the jobs that the crowd enqueued, and the history of each is the part of the log that is about it.
    """

    async def of(crowd: Crowd) -> int:
        assert crowd.recorder.contradictions() == []
        tolerance = crowd.recorder.tolerance()
        histories = crowd.recorder.histories()
        findings = [check(history, tolerance) for history in histories]
        events = await logged_events(crowd.url)
        assert set(events) <= {history.key for history in histories}
        assert [each for history in histories for each in differences(history, events[history.key], tolerance)] == []
        return sum(step.operation is None for finding in findings for step in finding.order)

    return of


async def logged_events(url: str) -> dict[str, list[dict[str, Any]]]:
    """The log's events by the keys of their jobs, those that are about one job being that job's history as well."""
    events = defaultdict(list)
    async with aiohttp.ClientSession() as session:
        reader = RecordingClient("reader", url, session, Recorder())
        log = await reader.log()
        keys = {each["job_id"]: each["data"]["idempotency_key"] for each in log if each["type"] == "job_enqueued"}
        for event in log:
            events[keys[event["job_id"]]].append(event)
        for job_id, key in keys.items():
            assert (await reader.events(job_id))[: len(events[key])] == events[key]  # leases still run out
    return events
