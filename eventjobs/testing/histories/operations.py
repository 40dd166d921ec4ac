"""What is recorded: operations on one job, each with its call, its return and what the client was told.

Times are integer microseconds on one clock of the recorder's; those inside documents are the coordinator's,
integer microseconds since 1970 UTC. The two are the same but for a tolerance that the recorder knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

NAMES = ("enqueue", "lease", "renew", "complete", "fail", "release", "cancel", "requeue", "get")
"""The operations there are."""
NOT_OFFERED = "not_offered"
"""The refusal that a lease is to a job when its answer had room for the job, and came without it."""


@frozen(kw_only=True)
class Ask:
    """What is asked. `name` is one of NAMES; only the fields that this operation has are set.

    `job` is the enqueue request as sent, two requests being the same when they are equal; `seconds` the length of a
    lease or renewal; `result` any JSON; `error` a failure's message; `delay_seconds` the wait it asks for.
    `request_id` is set where the lease request was sent more than once: then what it was given first counts.
    """

    name: str
    job: Mapping[str, Any] | None = None
    worker: str | None = None
    request_id: str | None = None
    token: int | None = None
    seconds: float | None = None
    result: Any = None
    error: str | None = None
    retry: bool = True
    delay_seconds: float | None = None

    def __str__(self) -> str:
        told = {
            "job": self.job,
            "worker": self.worker,
            "request_id": self.request_id,
            "token": self.token,
            "seconds": self.seconds,
            "result": self.result,
            "error": self.error,
            "retry": None if self.retry else False,
            "delay_seconds": self.delay_seconds,
        }
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in told.items() if value is not None)})"


@frozen
class Answer:
    """The client was told that it is done. `document` is the job as shown, or the part of it that was shown, with
    times as integers; `created` tells a new job from one that its idempotency key brought back."""

    document: Mapping[str, Any]
    created: bool | None = None

    def __str__(self) -> str:
        named = {"state": "", "attempts": "attempts ", "lease_token": "token ", "result": "result "}
        shown = [f"{text}{self.document[name]}" for name, text in named.items() if self.document.get(name) is not None]
        return ", ".join(shown + {True: ["new"], False: ["known"], None: []}[self.created])


@frozen
class Refusal:
    """The client was refused, with this code, and nothing changed."""

    code: str

    def __str__(self) -> str:
        return self.code


@frozen
class Lost:
    """The answer was lost, so the outcome is unknown: it may have happened at any time after the call, or never."""

    why: str

    def __str__(self) -> str:
        return f"? ({self.why})"


@frozen(eq=False)
class Operation:
    """An operation on one job by one client. `returned` is when its outcome, even a lost one, was known."""

    client: str
    ask: Ask
    called: int
    returned: int
    outcome: Answer | Refusal | Lost

    @property
    def answered(self) -> bool:
        """Whether the client knows what became of it."""
        return not isinstance(self.outcome, Lost)

    @property
    def changes(self) -> bool:
        """Whether it may have changed the job: neither a look nor a refusal."""
        return self.ask.name != "get" and not isinstance(self.outcome, Refusal)


@frozen
class History:
    """All operations that concern the job of one idempotency key. `job_ids` are those that were seen under the key."""

    key: str
    operations: tuple[Operation, ...] = field(repr=False)
    job_ids: tuple[str, ...] = ()
