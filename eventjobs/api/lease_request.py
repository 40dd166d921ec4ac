"""What a worker asks for: jobs of some queues and kinds, for a while."""

from __future__ import annotations

from attrs import frozen

from eventjobs.api.members import Members
from eventjobs.api.settle_request import LEASE_DURATION
from eventjobs.api.values import duration, integer, name, printable
from eventjobs.domain.commands import Actor, ActorType, Lease
from eventjobs.domain.limits import (
    FILTER_NAMES_MAX,
    LEASE_JOBS_MAX,
    LEASE_SECONDS_DEFAULT,
    MICROSECONDS,
    REQUEST_ID_LENGTH_MAX,
    WAIT_SECONDS_MAX,
    WORKER_LENGTH_MAX,
)

_max_jobs = integer(1, LEASE_JOBS_MAX)
_wait = duration(0, WAIT_SECONDS_MAX)
_worker = printable(WORKER_LENGTH_MAX)
_request_id = printable(REQUEST_ID_LENGTH_MAX)
_DEFAULT_DURATION = round(LEASE_SECONDS_DEFAULT * MICROSECONDS)


@frozen
class LeaseRequest:
    """The command, the queues and kinds to choose from (None: any), and how long to wait (microseconds)."""

    command: Lease
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    max_jobs: int
    wait: int


def read_lease(body: Members, now: int) -> LeaseRequest:
    """The whole request. After a fault it must not be used."""
    worker = body.require("worker", _worker)
    command = Lease(
        worker=worker,
        duration=body.read("lease_seconds", LEASE_DURATION, _DEFAULT_DURATION),
        request_id=body.read("request_id", _request_id),
        now=now,
        actor=Actor(ActorType.WORKER, worker or ""),
    )
    asked = LeaseRequest(
        command=command,
        queues=body.read_list("queues", name, 1, FILTER_NAMES_MAX),
        kinds=body.read_list("kinds", name, 1, FILTER_NAMES_MAX),
        max_jobs=body.read("max_jobs", _max_jobs, 1),
        wait=body.read("wait_seconds", _wait, 0),
    )
    body.end()
    return asked
