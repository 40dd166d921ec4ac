"""What is asked about jobs that are there: renew, complete, fail, release, cancel, erase, requeue."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from eventjobs.api.edge import Edge
from eventjobs.api.error_document import read_error
from eventjobs.api.members import Members
from eventjobs.api.values import duration, flag, reason, token
from eventjobs.domain.commands import Actor, ActorType, Cancel, Command, Complete, Erase, Fail, Release, Renew, Requeue
from eventjobs.domain.content import Content
from eventjobs.domain.limits import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, RETRY_DELAY_SECONDS_MAX

LEASE_DURATION = duration(LEASE_SECONDS_MIN, LEASE_SECONDS_MAX)
_retry_delay = duration(0, RETRY_DELAY_SECONDS_MAX)

HOLDER = Actor(ActorType.WORKER, "")
"""Whoever holds the lease: the request has its token, the lease its name."""


@frozen
class Asked:
    """The job that is asked about, and what the request brings along."""

    job_id: str
    now: int
    actor: Actor
    edge: Edge


Read = Callable[[Members, Asked], Command]
"""Reads every field of an item and gives the command. After a fault the command must not be used."""


def read_renew(item: Members, asked: Asked) -> Renew:
    """A longer lease; left out, as long as it was taken for."""
    return Renew(
        job_id=asked.job_id,
        token=item.require("token", token),
        duration=item.read("lease_seconds", LEASE_DURATION),
        now=asked.now,
        actor=asked.actor,
    )


def read_complete(item: Members, asked: Asked) -> Complete:
    """Success, with the result as it was sent."""
    result = item.content("result")
    return Complete(
        job_id=asked.job_id,
        token=item.require("token", token),
        result=None if result is None else Content(result, asked.edge.salt()),
        now=asked.now,
        actor=asked.actor,
    )


def read_fail(item: Members, asked: Asked) -> Fail:
    """A failed attempt."""
    return Fail(
        job_id=asked.job_id,
        token=item.require("token", token),
        error=Content(read_error(item), asked.edge.salt()),
        retry=item.read("retry", flag, True),
        delay=item.read("retry_in_seconds", _retry_delay),
        roll=asked.edge.roll(),
        now=asked.now,
        actor=asked.actor,
    )


def read_release(item: Members, asked: Asked) -> Release:
    """The job back, unharmed."""
    return Release(job_id=asked.job_id, token=item.require("token", token), now=asked.now, actor=asked.actor)


def read_cancel(item: Members, asked: Asked) -> Cancel:
    """An end, for a reason that may be left out."""
    return Cancel(job_id=asked.job_id, reason=item.read("reason", reason), now=asked.now, actor=asked.actor)


def read_erase(item: Members, asked: Asked) -> Erase:
    """The contents gone, for a reason that may be left out."""
    return Erase(job_id=asked.job_id, reason=item.read("reason", reason), now=asked.now, actor=asked.actor)


def read_requeue(item: Members, asked: Asked) -> Requeue:
    """A fresh set of attempts."""
    return Requeue(job_id=asked.job_id, now=asked.now, actor=asked.actor)
