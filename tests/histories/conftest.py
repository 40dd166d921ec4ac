"""What the tests of histories share: a way to write one by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventjobs.testing.histories import Answer, Ask, History, Lost, Operation, Refusal

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
