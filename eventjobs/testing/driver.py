"""Driving an engine along the handler's road in its plainest form: load, decide, append, one commit a call.

For tests of engines, tools and whatever else needs a store with something in it. It has none of the coordinator's
waiting, sharing of commits or timers.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventjobs.domain.commands import COORDINATOR, Command, Enqueue, Expire, Lease, content_of
from eventjobs.domain.decide import decide
from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Rejection
from eventjobs.store.contract import Engine, Transaction


class Driver:
    """Sends commands to an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def execute(self, *commands: Command) -> list[Job | Rejection]:
        """Each command but a lease decided in order, on the state the ones before it left; one commit."""
        transaction = self.engine.begin()
        answers = [
            _enqueue(transaction, each) if isinstance(each, Enqueue) else _obey(transaction, each) for each in commands
        ]
        self.engine.commit()
        return answers

    def lease(
        self, command: Lease, queues: Sequence[str] | None = None, kinds: Sequence[str] | None = None, limit: int = 1
    ) -> list[Job]:
        """Lease up to `limit` jobs; a request id that is remembered gives its grants that are still held."""
        transaction = self.engine.begin()
        grants = None
        if command.request_id is not None:
            grants = transaction.grants(command.worker, command.request_id, command.now)
        if grants is not None:
            granted = [(transaction.job(grant.job_id), grant.token) for grant in grants]
            leased = [job for job, token in granted if job.lease is not None and job.lease_token == token]
        else:
            candidates = transaction.candidates(queues, kinds, command.now, limit)
            leased = [_append(transaction, job, job.id, command) for job in candidates]
        self.engine.commit()
        return leased

    def expire(self, now: int, limit: int = 1_000) -> list[Job]:
        """What the rescuer does: every lease that ran out becomes an event."""
        transaction = self.engine.begin()
        expired = [
            _append(transaction, job, job.id, Expire(job_id=job.id, now=now, actor=COORDINATOR))
            for job in transaction.expired(now, limit)
        ]
        self.engine.commit()
        return expired


def _enqueue(transaction: Transaction, command: Enqueue) -> Job | Rejection:
    holder = None if command.idempotency_key is None else transaction.key_holder(command.idempotency_key)
    decision = decide(holder, command)
    if isinstance(decision, Rejection):
        return decision
    return _append(transaction, None, command.job_id, command) if decision else holder.job


def _obey(transaction: Transaction, command: Command) -> Job | Rejection:
    return _append(transaction, transaction.job(command.job_id), command.job_id, command)


def _append(transaction: Transaction, job: Job | None, job_id: str, command: Command) -> Job | Rejection:
    decision = decide(job, command)
    if isinstance(decision, Rejection):
        return decision
    for event in decision:
        job = transaction.append(job, event, job_id, command.now, command.actor, content_of(command))
    return job
