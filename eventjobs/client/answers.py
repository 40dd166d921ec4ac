"""What a coordinator answers, as typed values.

Times are aware datetimes in UTC. Members that a later coordinator adds are ignored. Payloads and results stay the
bytes that came until somebody asks for the value.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from eventjobs.client.errors import BadAnswer
from eventjobs.client.values import from_json

T = TypeVar("T")

SHOWN_LENGTH_MAX = 300
"""Characters of a payload, a result or data that a printed value shows."""


class JobError(Struct, frozen=True, kw_only=True):
    """The last thing that went wrong with a job. The type of a lease that ran out is `lease_expired`."""

    type: str
    message: str
    traceback: str | None = None


class Job(Struct, frozen=True, kw_only=True, rename={"payload_raw": "payload", "result_raw": "result"}):
    """A job as it stood when the coordinator answered. `payload` and `result` are read anew at each access."""

    id: str
    kind: str
    queue: str
    priority: int
    payload_raw: Raw
    state: str
    attempts: int
    max_attempts: int
    retry_policy: dict[str, Any]
    run_at: datetime
    lease_owner: str | None
    lease_expires_at: datetime | None
    lease_token: int
    result_raw: Raw
    error: JobError | None
    idempotency_key: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def payload(self) -> Any:
        """The payload as a Python value; integers are exact."""
        return from_json(bytes(self.payload_raw))

    @property
    def payload_text(self) -> str:
        """The payload's JSON text exactly as it was sent."""
        return bytes(self.payload_raw).decode("utf-8")

    @property
    def result(self) -> Any:
        """The result as a Python value; None before success."""
        return from_json(bytes(self.result_raw))

    @property
    def result_text(self) -> str:
        """The result's JSON text exactly as it was sent; `null` before success."""
        return bytes(self.result_raw).decode("utf-8")


class Fault(Struct, frozen=True):
    """One fault of a request: where (`jobs[1].kind`, "" for the whole body), and what."""

    path: str
    message: str


class Problem(Struct, frozen=True, kw_only=True):
    """Why a request, or one item of it, was refused."""

    code: str
    status: int
    detail: str = ""
    errors: list[Fault] = []  # a Struct copies its default
    job: Job | None = None


class ItemResult(Struct, frozen=True, kw_only=True):
    """What became of one item of a bulk request: `problem` is set exactly when it is not `ok`."""

    id: str
    ok: bool
    state: str | None = None
    lease_token: int | None = None
    lease_expires_at: datetime | None = None
    run_at: datetime | None = None
    problem: Problem | None = None


class Actor(Struct, frozen=True):
    """Who asked: producer, worker, operator or coordinator, and a name."""

    type: str
    id: str


class Event(Struct, frozen=True, kw_only=True, rename={"data_raw": "data"}):
    """One record of the log. `data` depends on the type."""

    position: int
    job_id: str
    version: int
    type: str
    format_version: int
    time: datetime
    actor: Actor
    data_raw: Raw

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def data(self) -> dict[str, Any]:
        """The event's own members."""
        return from_json(bytes(self.data_raw))


class Head(Struct, frozen=True):
    """The whole log in two values: its size, and the root of its Merkle tree in base64."""

    size: int
    root: str


class Stats(Struct, frozen=True, kw_only=True):
    """Jobs by state, altogether and by queue and kind; mean times in seconds, None before the first."""

    jobs: dict[str, int]
    queues: dict[str, dict[str, int]]
    kinds: dict[str, dict[str, int]]
    average_wait_seconds: float | None
    average_run_seconds: float | None
    lease_expirations: int
    head: Head


class EnqueuedMany(Struct, frozen=True):
    """The jobs of a batch in the order asked, and how many of them this request created."""

    jobs: list[Job]
    created: int


class JobPage(Struct, frozen=True):
    """A stretch of a list, newest first; `next_cursor` is None at its end."""

    jobs: list[Job]
    next_cursor: str | None


class EventPage(Struct, frozen=True):
    """A stretch of the log, and the head as it was then."""

    events: list[Event]
    head: Head


class Leased(Struct, frozen=True):
    """The jobs of a lease request."""

    jobs: list[Job]


class Results(Struct, frozen=True):
    """The results of a bulk request, in its order."""

    results: list[ItemResult]


class History(Struct, frozen=True):
    """The events of one job, oldest first."""

    events: list[Event]


class Requeued(Struct, frozen=True):
    """How many dead jobs were requeued."""

    requeued: int


class Erased(Struct, frozen=True):
    """Of how many jobs something was erased."""

    erased: int


def _shown(value: Struct) -> str:
    """The value as people read it: JSON as the text it is, and not too much of it."""
    parts = []
    for name in value.__struct_fields__:
        member = getattr(value, name)
        if isinstance(member, Raw):
            text = bytes(member).decode("utf-8", "replace")
            cut = text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}… ({len(text)} characters)"
            parts.append(f"{name.removesuffix('_raw')}={cut}")
        else:
            parts.append(f"{name}={member!r}")
    return f"{type(value).__name__}({', '.join(parts)})"


def decoded(body: bytes, shape: type[T]) -> T:
    """The answer in a body. Raises BadAnswer when it has another shape."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadAnswer(f"the answer is not a coordinator's {shape.__name__}: {error}") from error
