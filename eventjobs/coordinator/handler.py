"""The handler: load, decide, append. The one place where a command meets the log.

A handler lives for one transaction. It decides everything a request asks for before it appends, so that a refused
batch leaves nothing; an exception here means a broken promise, and the whole transaction is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.replies import BatchRejected, Enqueued, Leased, Settled
from eventjobs.domain.commands import (
    COORDINATOR,
    Actor,
    ActorType,
    Command,
    Enqueue,
    Erase,
    Expire,
    Lease,
    Retire,
    content_of,
)
from eventjobs.domain.decide import Holding, KeyHolder, decide
from eventjobs.domain.events import Event, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.domain.job import Job
from eventjobs.domain.limits import ANSWER_BYTES_MAX
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.value import changed
from eventjobs.store.contract import Grant, Transaction

ANSWER_JOB_BYTES = 2_048
"""What a job takes in an answer beside its contents, at most in the ordinary case."""
JOB_BYTES = 1_024
"""What a new job takes in the store beside its contents."""


class Handler:
    """Works on one open transaction; `effects` collects what others must hear after the commit."""

    def __init__(
        self, transaction: Transaction, effects: Effects, room: Callable[[int], bool] = lambda size: True
    ) -> None:
        """`room` tells whether the store has room for the transaction's new jobs of so many bytes."""
        self._transaction, self._effects, self._room = transaction, effects, room
        self._new_bytes = 0

    def enqueue(self, commands: Sequence[Enqueue]) -> list[Enqueued] | BatchRejected:
        """All the jobs, or none. Without room only requests that add nothing are answered."""
        plan: list[tuple[Enqueue, Event | None, Job | None]] = []
        room = None
        keyed: dict[str, KeyHolder] = {}
        for index, command in enumerate(self._timely(command) for command in commands):
            key = command.idempotency_key
            holder = None if key is None else keyed.get(key) or self._transaction.key_holder(key)
            decision = decide(holder, command)
            if isinstance(decision, Rejection):
                return BatchRejected(index, attrs.evolve(decision, job=None) if key in keyed else decision)
            if not decision:
                plan.append((command, None, None if key in keyed else holder.job))
                continue
            if room is None:
                room = self._room(self._new_bytes + _size(commands))
            if not room:
                return BatchRejected(index, Rejection(Code.STORAGE_FULL, "the store is nearly full: no new jobs"))
            plan.append((command, decision[0], None))
            if key is not None:
                keyed[key] = _future_holder(command, decision[0])
        if room:
            self._new_bytes += _size(commands)
        return [self._enqueued(*step) for step in plan]

    def _enqueued(self, command: Enqueue, event: Event | None, held: Job | None) -> Enqueued:
        """Append the event; without one there is a job already: `held`, or one that this batch has just made. It is
        only shown, and not asked for as one that is to be changed: whoever has it locked holds nobody up."""
        if event is not None:
            return Enqueued(self._append(None, event, command), True)
        return Enqueued(held or self._transaction.key_holder(command.idempotency_key).job, False)

    def take_in(self, requests: Sequence[tuple[Asked, Enqueue | NotEnqueued]]) -> list[Settled]:
        """Enqueue each request of the intake on its own, in order; what somebody else has in hand is left out. The
        transaction is a SharedTransaction."""
        settled = []
        for asked, command in requests:
            if self._transaction.still_asked(asked.number):
                refusal = command if isinstance(command, NotEnqueued) else self._not_enqueued(asked, command)
                self._transaction.settle_asked(asked.number, refusal)
                settled.append(Settled(asked, refusal))
        return settled

    def _not_enqueued(self, asked: Asked, command: Enqueue) -> NotEnqueued | None:
        """Enqueue the job, or say why none came of it under this id. The id of a job that was there before is never one
        for a new job, whatever is left of the old one: versions and tokens would begin again."""
        if asked.held and not self._holds(command):
            reason = "the job with this id was let go, or its idempotency key, while the request waited"
            return NotEnqueued("key_forgotten", reason, command.job_id)
        answer = self.enqueue([command])
        if isinstance(answer, BatchRejected):
            holder = answer.rejection.job
            return NotEnqueued(answer.rejection.code, answer.rejection.message, None if holder is None else holder.id)
        job = answer[0].job
        if job.id == command.job_id:
            return None
        return NotEnqueued("same_request", "the same was asked for under this key before: see that job", job.id)

    def _holds(self, command: Enqueue) -> bool:
        """Whether the command's key still belongs to the job with its id."""
        holder = self._transaction.key_holder(command.idempotency_key)
        return holder is not None and holder.job.id == command.job_id

    def lease(self, command: Lease, queues: Sequence[str] | None, kinds: Sequence[str] | None, max_jobs: int) -> Leased:
        """Up to `max_jobs` leased jobs, best first; a remembered request gets what it still holds of its grants."""
        command = self._timely(command)
        if command.request_id is not None:
            grants = self._transaction.grants(command.worker, command.request_id, command.now)
            if grants is not None:
                return Leased([job for grant in grants if (job := self._still_held(grant)) is not None], repeated=True)
        leased, answer_bytes = [], 0
        for job in self._transaction.candidates(queues, kinds, command.now, max_jobs):
            contents = (job.spec.payload, job.error)
            answer_bytes += ANSWER_JOB_BYTES + sum(content.size for content in contents if content is not None)
            if leased and answer_bytes > ANSWER_BYTES_MAX:
                break
            decision = decide(job, command)
            if isinstance(decision, Rejection):
                raise AssertionError(f"the ready order offered job {job.id}, which cannot be leased")
            leased.append(self._append(job, decision[0], command))
        return Leased(leased, repeated=False)

    def _still_held(self, grant: Grant) -> Job | None:
        job = self._transaction.job(grant.job_id)
        return job if job is not None and job.lease is not None and job.lease_token == grant.token else None

    def execute(self, commands: Sequence[Command]) -> list[Job | Rejection]:
        """Each command decided alone, in order; the job after it, or why nothing happened."""
        return [self._execute(self._timely(command)) for command in commands]

    def _execute(self, command: Command) -> Job | Rejection:
        job = self._transaction.kept(command.job_id)
        subject: Job | Holding | None = job
        if job is not None and isinstance(command, Erase | Retire):
            subject = Holding(job, self._transaction.errors_of(job.id))
        decision = decide(subject, command)
        if isinstance(decision, Rejection):
            self._effects.refused.append((command, decision))
            return decision
        for event in decision:
            job = self._append(job, event, command)
        return job

    def expire(self, now: int, limit: int) -> int:
        """Take up to `limit` jobs from workers whose lease ran out; how many it were."""
        now = self._transaction.now(now)
        jobs = self._transaction.expired(now, limit)
        for job in jobs:
            command = Expire(job_id=job.id, now=now, actor=COORDINATOR)
            decision = decide(job, command)
            if isinstance(decision, Rejection):
                raise AssertionError(f"the expiries named job {job.id}, whose lease did not run out")
            self._append(job, decision[0], command)
        return len(jobs)

    def _timely(self, command: Command) -> Command:
        """The command at the transaction's time: it was made before it got its turn, by another clock perhaps. What it
        asks for by a duration is counted from there."""
        now = self._transaction.now(command.now)
        return command if command.now == now else changed(command, now=now)

    def _append(self, before: Job | None, event: Event, command: Command) -> Job:
        job_id = command.job_id if before is None else before.id
        actor = _actor(before, command)
        after = self._transaction.append(before, event, job_id, command.now, actor, content_of(command))
        self._effects.saw(before, event, after)
        return after


def _actor(job: Job | None, command: Command) -> Actor:
    """Who did it: the command's actor, or the lease's owner where a worker showed only its token."""
    if command.actor.id or command.actor.type is not ActorType.WORKER:
        return command.actor
    return Actor(ActorType.WORKER, job.lease.worker)


def _size(commands: Sequence[Enqueue]) -> int:
    """What new jobs take in the store, contents and all."""
    contents = sum(len(command.payload.text) for command in commands if command.payload is not None)
    return contents + JOB_BYTES * len(commands)


def _future_holder(command: Enqueue, event: Event) -> KeyHolder:
    """The holder of a key as it will be once its job is appended, for later items of the same batch."""
    job = evolve(None, Record(0, command.job_id, 1, command.now, command.actor, event))
    return KeyHolder(job, None if command.payload is None else command.payload.text)
