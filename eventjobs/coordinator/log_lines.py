"""One log line per event that matters. The log of events is the record; these lines are for people watching."""

from __future__ import annotations

import logging

import structlog

from eventjobs.coordinator.effects import NOTABLE, Effects
from eventjobs.domain import events as e
from eventjobs.domain.commands import Renew
from eventjobs.domain.job import Job
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Code, Rejection

log = structlog.get_logger("eventjobs.jobs")

_WARN = (e.LeaseExpired, e.JobDied)


def report(effects: Effects) -> None:
    """Write the lines of one commit: trouble as warnings, the ordinary way of a job at debug level."""
    for before, event, after in effects.appended if log.is_enabled_for(logging.DEBUG) else effects.notable:
        if type(event) in _WARN:
            log.warning(event.type, **_facts(before, event, after))
        elif type(event) in NOTABLE:
            log.info(event.type, **_facts(before, event, after))
        else:
            log.debug(event.type, **_facts(before, event, after))
    for command, rejection in effects.refused:
        if rejection.code in (Code.STALE_TOKEN, Code.LEASE_EXPIRED):
            crossed = isinstance(command, Renew) and command.token == rejection.job.lease_token
            # a renewal that crosses the job's own completion is no trouble, a late outcome is
            (log.info if crossed else log.warning)("refused", **_refusal(command, rejection))


def _facts(before: Job | None, event: e.Event, after: Job) -> dict[str, object]:
    lease = after.lease or (before.lease if before is not None else None)
    facts = {
        "job_id": after.id,
        "kind": after.spec.kind,
        "queue": after.spec.queue,
        "attempt": getattr(event, "attempt", after.attempts),
        "token": after.lease_token,
        "outcome": str(after.state),
    }
    if lease is not None:
        facts["worker"] = lease.worker
        if after.lease is None:
            facts["duration"] = round((after.updated_at - lease.leased_at) / MICROSECONDS, 6)
    if isinstance(event, e.JobDied):
        facts["cause"] = str(event.cause)
    return facts


def _refusal(command: object, rejection: Rejection) -> dict[str, object]:
    job = rejection.job
    return {
        "request": type(command).__name__.lower(),
        "code": str(rejection.code),
        "job_id": job.id,
        "kind": job.spec.kind,
        "attempt": job.attempts,
        "worker": None if job.lease is None else job.lease.worker,
        "token": command.token,
        "current_token": job.lease_token,
        "state": str(job.state),
    }
