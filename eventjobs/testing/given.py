"""given(events).when(command).then(outcome): the lifecycle's rules as sentences.

    given(enqueued(), leased()).when(complete()).then(completed())
    given(enqueued(), leased()).when(complete(token=7)).then(Code.STALE_TOKEN)
    given(enqueued(), leased(), completed()).when(complete()).then(UNCHANGED)

The events are those of one job, recorded a second apart from START. What `then` expects is the event that is
appended, the code of the rejection, or UNCHANGED: the command had already had its effect. It returns the job as
it stands afterwards. Builders for commands and events are in `eventjobs.testing.builders`.
"""

from __future__ import annotations

from attrs import frozen

from eventjobs.domain.commands import Command, Enqueue, Erase, Retire
from eventjobs.domain.content import Content
from eventjobs.domain.decide import UNCHANGED, Decision, Holding, KeyHolder, decide
from eventjobs.domain.events import ContentsErased, Event, JobRetired, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.testing.builders import JOB_ID, PAYLOAD, PRODUCER_ACTOR, at

__all__ = ["UNCHANGED", "Decided", "Given", "given"]


def given(*events: Event, payload: Content | None = PAYLOAD) -> Given:
    """One job's history; no events: no such job.

    An enqueue is asked of the holder of its idempotency key, which is this job; `payload` is what it holds. An erasure
    and a retirement are asked of the job with the errors it still holds.
    """
    job, errors = None, []
    for version, event in enumerate(events, start=1):
        record = Record(version, JOB_ID, version, at(version - 1), PRODUCER_ACTOR, event)
        job = evolve(job, record)
        if isinstance(event, ContentsErased | JobRetired):
            errors.clear()
        elif getattr(event, "error", None) is not None:
            errors.append(version)
    return Given(job, payload, tuple(errors))


@frozen
class Given:
    """A job with a past, waiting for a command."""

    job: Job | None
    payload: Content | None
    errors: tuple[int, ...]

    def when(self, command: Command) -> Decided:
        """Ask for something."""
        subject = self.job
        if isinstance(command, Enqueue) and self.job is not None:
            subject = KeyHolder(self.job, None if self.payload is None else self.payload.text)
        if isinstance(command, Erase | Retire) and self.job is not None:
            subject = Holding(self.job, self.errors)
        return Decided(self.job, command, decide(subject, command))


@frozen
class Decided:
    """A job, a command, and what was decided."""

    job: Job | None
    command: Command
    decision: Decision

    def then(self, expected: Event | Code | tuple[()]) -> Job | None:
        """Hold the decision against what was expected; the job as it stands afterwards. Raises AssertionError."""
        met = self.decision.code if isinstance(self.decision, Rejection) else self.decision
        wanted = expected if expected == UNCHANGED or isinstance(expected, Code) else (expected,)
        if met != wanted:
            raise AssertionError(f"{self.command}\n  on {self.job}\n  expected {expected}\n  but met {self.decision}")
        return self.job_after()

    def job_after(self) -> Job | None:
        """The job with what was decided folded in."""
        job = self.job
        if not isinstance(self.decision, Rejection):
            for event in self.decision:
                version = 1 if job is None else job.version + 1
                record = Record(version, JOB_ID, version, self.command.now, self.command.actor, event)
                job = evolve(job, record)
        return job
