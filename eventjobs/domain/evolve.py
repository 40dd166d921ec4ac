"""evolve: what an event means for the state of a job. Total, and without rules: whether it may happen was decided.

Folding a job's records from the first gives its state, on every engine and at every time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from eventjobs.domain import events as e
from eventjobs.domain.content import ContentDigest
from eventjobs.domain.job import ERROR, PAYLOAD, RESULT, ContentRef, DeathCause, Job, JobSpec, Lapse, Lease, State
from eventjobs.domain.value import changed


def evolve(job: Job | None, record: e.Record) -> Job:
    """The job after the record. `job` is its state before, None exactly before job_enqueued."""
    return _STEPS[type(record.event)](job, record, record.event)


def _enqueued(job: None, record: e.Record, event: e.JobEnqueued) -> Job:
    spec = JobSpec(
        record.job_id,
        record.position,
        event.kind,
        event.queue,
        event.priority,
        event.max_attempts,
        event.retry_policy,
        event.idempotency_key,
        event.asked_run_at,
        event.asked_delay,
        _ref(record, event.payload),
        record.time,
    )
    return Job(spec, 1, State.QUEUED, 0, event.run_at, 0, None, None, None, None, None, record.time, None)


def _leased(job: Job, record: e.Record, event: e.JobLeased) -> Job:
    lease = Lease(event.worker, event.expires_at, event.duration, record.time)
    return Job(
        job.spec, record.version, State.RUNNING, event.attempt, job.run_at, event.token, lease,
        None, job.error, job.lapse, None, record.time, None,
    )  # fmt: skip


def _renewed(job: Job, record: e.Record, event: e.LeaseRenewed) -> Job:
    lease = Lease(job.lease.worker, event.expires_at, job.lease.duration, job.lease.leased_at)
    return Job(
        job.spec, record.version, State.RUNNING, job.attempts, job.run_at, job.lease_token, lease,
        None, job.error, job.lapse, None, record.time, None,
    )  # fmt: skip


def _released(job: Job, record: e.Record, event: e.LeaseReleased) -> Job:
    return _after_lease(job, record, State.QUEUED, job.attempts - 1, event.run_at, job.error, job.lapse)


def _expired(job: Job, record: e.Record, event: e.LeaseExpired) -> Job:
    return _after_lease(job, record, State.QUEUED, event.attempt, event.run_at, None, _lapse(job))


def _failed(job: Job, record: e.Record, event: e.AttemptFailed) -> Job:
    return _after_lease(job, record, State.FAILED, event.attempt, event.run_at, _ref(record, event.error), None)


def _after_lease(
    job: Job, record: e.Record, state: State, attempts: int, run_at: int, error: ContentRef | None, lapse: Lapse | None
) -> Job:
    """The job waiting again, its lease over; the token stays."""
    return Job(
        job.spec, record.version, state, attempts, run_at, job.lease_token, None,
        None, error, lapse, None, record.time, None,
    )  # fmt: skip


def _completed(job: Job, record: e.Record, event: e.JobCompleted) -> Job:
    return _ended(job, record, State.SUCCEEDED, _ref(record, event.result), job.error, job.lapse, None)


def _died(job: Job, record: e.Record, event: e.JobDied) -> Job:
    if event.cause is DeathCause.LEASE_EXPIRED:
        return _ended(job, record, State.DEAD, None, None, _lapse(job), event.cause)
    return _ended(job, record, State.DEAD, None, _ref(record, event.error), None, event.cause)


def _canceled(job: Job, record: e.Record, event: e.JobCanceled) -> Job:
    return _ended(job, record, State.CANCELED, None, job.error, job.lapse, None)


def _ended(
    job: Job, record: e.Record, state: State, result: ContentRef | None,
    error: ContentRef | None, lapse: Lapse | None, cause: DeathCause | None,
) -> Job:  # fmt: skip
    return Job(
        job.spec, record.version, state, job.attempts, job.run_at, job.lease_token, None,
        result, error, lapse, cause, record.time, record.time,
    )  # fmt: skip


def _requeued(job: Job, record: e.Record, event: e.JobRequeued) -> Job:
    return Job(
        job.spec, record.version, State.QUEUED, 0, event.run_at, job.lease_token, None,
        None, job.error, job.lapse, None, record.time, None,
    )  # fmt: skip


def without_contents(job: Job, positions: Collection[int]) -> Job:
    """The job when the contents at these positions are gone: nothing points at them any more; which of its contents
    they were is kept for those who ask."""
    refs = {PAYLOAD: job.spec.payload, RESULT: job.result, ERROR: job.error}
    gone = {*job.erased, *(name for name, ref in refs.items() if ref is not None and ref.position in positions)}
    return changed(
        job,
        spec=changed(job.spec, payload=None if PAYLOAD in gone else job.spec.payload),
        result=None if RESULT in gone else job.result,
        error=None if ERROR in gone else job.error,
        erased=tuple(name for name in refs if name in gone),
    )


def _erased(job: Job, record: e.Record, event: e.ContentsErased | e.JobRetired) -> Job:
    left = without_contents(job, e.erased_positions(event))
    return changed(left, version=record.version, updated_at=record.time)


def _retired(job: Job, record: e.Record, event: e.JobRetired) -> Job:
    return changed(_erased(job, record, event), retired=True)


def _key_forgotten(job: Job, record: e.Record, event: e.IdempotencyKeyForgotten) -> Job:
    spec = changed(job.spec, idempotency_key=None)
    return changed(job, spec=spec, version=record.version, updated_at=record.time)


def _ref(record: e.Record, digest: ContentDigest | None) -> ContentRef | None:
    return None if digest is None else ContentRef(record.position, digest.size)


def _lapse(job: Job) -> Lapse:
    return Lapse(job.lease.worker, job.lease.expires_at)


_STEPS: dict[type, Callable[..., Job]] = {
    e.JobEnqueued: _enqueued,
    e.JobLeased: _leased,
    e.LeaseRenewed: _renewed,
    e.LeaseReleased: _released,
    e.LeaseExpired: _expired,
    e.JobCompleted: _completed,
    e.AttemptFailed: _failed,
    e.JobDied: _died,
    e.JobCanceled: _canceled,
    e.JobRequeued: _requeued,
    e.ContentsErased: _erased,
    e.JobRetired: _retired,
    e.IdempotencyKeyForgotten: _key_forgotten,
}
