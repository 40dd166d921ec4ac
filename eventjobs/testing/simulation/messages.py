"""What requests and answers say, read from their bytes by somebody who trusts neither side."""

from __future__ import annotations

from functools import lru_cache

import orjson
from attrs import frozen

from eventjobs.domain.events import Record

BULK = {"/renew": "renew", "/complete": "complete", "/fail": "fail"}
FIXED = {"/jobs": "enqueue", "/jobs/batch": "enqueue", "/lease": "lease", "/dead/requeue": "requeue dead"}
SHORT_ID = 4


@frozen
class Item:
    """One job a request is about, and the token it shows; 0 where there is none to be shown."""

    job_id: str
    token: int = 0

    def __str__(self) -> str:
        return f"{short(self.job_id)}:{self.token}" if self.token else short(self.job_id)


@frozen
class Message:
    """A request: its verb, its body, and the jobs it is about. What changes nothing is called "read"."""

    verb: str
    body: dict
    items: tuple[Item, ...]

    def __str__(self) -> str:
        match self.verb:
            case "lease":
                return f"lease {self.body['max_jobs']} ({self.body['request_id'][-4:]})"
            case "enqueue":
                keys = ", ".join(job["idempotency_key"] for job in enqueued(self))
                return f"enqueue {keys}"
            case "read":
                return self.body["target"]
        return " ".join([self.verb, *map(str, self.items)])


@lru_cache(maxsize=64)
def message(method: str, target: str, body: bytes) -> Message:
    """What a request says."""
    if method == "GET":
        return Message("read", {"target": target}, ())
    document = orjson.loads(body) if body else {}
    if target in BULK:
        return Message(BULK[target], document, tuple(Item(each["id"], each["token"]) for each in document["jobs"]))
    if target in FIXED:
        return Message(FIXED[target], document, ())
    job_id, verb = target.removeprefix("/jobs/").split("/")
    return Message(verb, document, (Item(job_id, document.get("token", 0)),))


def enqueued(request: Message) -> list[dict]:
    """The jobs an enqueue asks for."""
    return request.body.get("jobs", [request.body])


def short(job_id: str) -> str:
    """The end of a job's id: it is enough within one run."""
    return job_id[-SHORT_ID:]


def in_short(record: Record) -> str:
    """A record of the log: position, type, job, token."""
    token = getattr(record.event, "token", 0)
    return f"{record.position} {record.event.type} {Item(record.job_id, token)}"
