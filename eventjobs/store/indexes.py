"""The projections the coordinator decides by: job rows, ready order, lease expiries, idempotency keys, lease requests,
and the ends of jobs.

Each is a pure fold like any read model; engines with indexes of their own may keep them as columns instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, takewhile

import msgspec

from eventjobs.domain.events import (
    AttemptFailed,
    ContentsErased,
    IdempotencyKeyForgotten,
    JobCanceled,
    JobCompleted,
    JobDied,
    JobEnqueued,
    JobLeased,
    JobRequeued,
    JobRetired,
    Record,
)
from eventjobs.domain.job import FINISHED, Job
from eventjobs.domain.limits import LEASE_REQUEST_MEMORY_SECONDS, MICROSECONDS
from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Projection, Rows, Table
from eventjobs.store.codec import encode_job
from eventjobs.store.contract import BARE, HOLDING, KEYED, EndingLane

LEASE_REQUEST_MEMORY = LEASE_REQUEST_MEMORY_SECONDS * MICROSECONDS
DIGESTS_REMEMBERED = 1_024
"""Digests kept at hand: what a command asks by is digested again by its projection, and by all jobs leased with it."""

JOBS = Table("jobs", (Part.UUID,))
"""Job id -> job row."""
READY = Table("ready", (Part.NAME, Part.NAME, Part.NUMBER, Part.NUMBER, Part.NUMBER))
"""(queue, kind, -priority, run_at, enqueue position) -> job id: every waiting job in the order of leasing."""
DUE = Table("due", (Part.NUMBER, Part.NUMBER))
"""(run_at, enqueue position) -> queue NUL kind: waiting jobs that were not due when they began to wait."""
EXPIRIES = Table("expiries", (Part.NUMBER, Part.NUMBER))
"""(expires_at, enqueue position) -> job id: every running job."""
KEYS = Table("idempotency_keys", (Part.DIGEST,))
"""SHA-256 of an idempotency key -> id of the job enqueued under it."""
LEASE_REQUESTS = Table("lease_requests", (Part.DIGEST,))
"""SHA-256 of worker and request id -> position and time of the request's first grant."""
LEASE_REQUEST_AGES = Table("lease_request_ages", (Part.NUMBER,))
"""Position of a request's first grant -> its digest: the order in which requests are forgotten."""
ENDINGS = Table("endings", (Part.NAME, Part.NAME, Part.NAME, Part.NUMBER, Part.NUMBER), put_once=True)
"""(stage/state, queue, kind, finished_at, enqueue position) -> job id: finished jobs by what is left of them."""
ATTEMPT_ERRORS = Table("attempt_errors", (Part.UUID,))
"""Job id -> positions of the errors that its attempts brought and the store still has, 8 bytes big-endian each."""


@lru_cache(DIGESTS_REMEMBERED)
def text_digest(*texts: str) -> bytes:
    """SHA-256 over texts of any length, kept apart by their lengths."""
    return hashlib.sha256(b"".join(b"%d:%b" % (len(data), data) for data in map(str.encode, texts))).digest()


class JobRows:
    """Each job as it stands, by its id. A retired one stays as long as its idempotency key does."""

    name, version, tables = "jobs", 1, (JOBS,)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        gone = after.retired and after.spec.idempotency_key is None
        return ((JOBS, (record.job_id,), None if gone else encode_job(after)),)


class ReadyOrder:
    """Waiting jobs by lane (queue and kind). Nothing moves when a scheduled job comes due: the order holds its time."""

    name, version, tables = "ready", 1, (READY, DUE)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        changes: list[Change] = []
        if before is not None and before.waiting:
            changes.append((READY, _ready_key(before), None))
            if before.run_at > before.updated_at:
                changes.append((DUE, (before.run_at, before.spec.position), None))
        if after.waiting:
            spec = after.spec
            changes.append((READY, _ready_key(after), spec.id.encode()))
            if after.run_at > after.updated_at:
                changes.append((DUE, (after.run_at, spec.position), f"{spec.queue}\0{spec.kind}".encode()))
        return changes


def _ready_key(job: Job) -> tuple[str, str, int, int, int]:
    spec = job.spec
    return (spec.queue, spec.kind, -spec.priority, job.run_at, spec.position)


class Expiries:
    """Running jobs by the time their leases run out."""

    name, version, tables = "expiries", 1, (EXPIRIES,)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        old = None if before is None or before.lease is None else before.lease.expires_at
        new = None if after.lease is None else after.lease.expires_at
        if old == new:
            return ()
        changes: list[Change] = []
        if old is not None:
            changes.append((EXPIRIES, (old, after.spec.position), None))
        if new is not None:
            changes.append((EXPIRIES, (new, after.spec.position), record.job_id.encode()))
        return changes


class IdempotencyKeys:
    """The job that was enqueued first under each idempotency key, by the key's digest."""

    name, version, tables = "idempotency_keys", 1, (KEYS,)
    handles = (JobEnqueued, IdempotencyKeyForgotten)

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        event = record.event
        if isinstance(event, IdempotencyKeyForgotten):
            return ((KEYS, (text_digest(before.spec.idempotency_key),), None),)
        if not isinstance(event, JobEnqueued) or event.idempotency_key is None:
            return ()
        return ((KEYS, (text_digest(event.idempotency_key),), record.job_id.encode()),)


class LeaseRequests:
    """Which lease requests were granted something, for a day. The grants are the records from the first one on.

    Each new request makes the two oldest that have passed a day be forgotten, so the table stays bounded.
    """

    name, version, tables = "lease_requests", 1, (LEASE_REQUESTS, LEASE_REQUEST_AGES)
    handles = (JobLeased,)

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        event = record.event
        if not isinstance(event, JobLeased) or event.request_id is None:
            return ()
        digest = text_digest(event.worker, event.request_id)
        known = remembered_request(rows, digest, record.time)
        if known is not None:
            return ()
        changes = list(_forget(rows, record.time))
        changes.append((LEASE_REQUESTS, (digest,), msgspec.msgpack.encode((record.position, record.time))))
        changes.append((LEASE_REQUEST_AGES, (record.position,), digest))
        return changes


def _forget(rows: Rows, now: int) -> Iterator[Change]:
    """Drop up to two of the oldest requests, those that have passed a day."""
    for (position,), digest in islice(rows.rows(LEASE_REQUEST_AGES), 2):
        first, time = decode_request(rows.row(LEASE_REQUESTS, (digest,)))
        if first == position:  # else the request came again after its day, and has a younger entry
            if time > now - LEASE_REQUEST_MEMORY:
                return
            yield (LEASE_REQUESTS, (digest,), None)
        yield (LEASE_REQUEST_AGES, (position,), None)


def remembered_request(rows: Rows, digest: bytes, now: int) -> int | None:
    """The position of the request's first grant, if it was made within the last day."""
    stored = rows.row(LEASE_REQUESTS, (digest,))
    if stored is None:
        return None
    position, time = decode_request(stored)
    return position if time > now - LEASE_REQUEST_MEMORY else None


def decode_request(stored: bytes) -> tuple[int, int]:
    """Position and time of a request's first grant."""
    position, time = msgspec.msgpack.decode(stored)
    return position, time


class Endings:
    """Finished jobs, oldest end first, for retention: those with contents, those without, and those with a key."""

    name, version, tables = "endings", 1, (ENDINGS, ATTEMPT_ERRORS)
    handles = (
        JobCompleted,
        JobDied,
        JobCanceled,
        AttemptFailed,
        JobRequeued,
        ContentsErased,
        JobRetired,
        IdempotencyKeyForgotten,
    )

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        event, key = record.event, (record.job_id,)
        if after.finished_at is None and type(event) not in (AttemptFailed, JobRequeued):
            return ()
        changes: list[Change] = []
        brought = type(event) in (AttemptFailed, JobDied) and event.error is not None
        erased = type(event) in (ContentsErased, JobRetired)
        if brought:
            others = rows.row(ATTEMPT_ERRORS, key) or b""
            changes.append((ATTEMPT_ERRORS, key, others + record.position.to_bytes(8)))
        elif erased and event.error_positions:
            changes.append((ATTEMPT_ERRORS, key, None))
        old = _places(before, before is not None and before.finished_at is not None and _holds(rows, before))
        new = _places(after, brought or (not erased and after.finished_at is not None and _holds(rows, after)))
        changes += [(ENDINGS, place, None) for place in old if place not in new]
        changes += [(ENDINGS, place, record.job_id.encode()) for place in new if place not in old]
        return changes


def _holds(rows: Rows, job: Job) -> bool:
    """Whether the store has a content of the job. Errors of earlier attempts are looked up when there is no other."""
    return not (
        job.spec.payload is None
        and job.result is None
        and job.error is None
        and rows.row(ATTEMPT_ERRORS, (job.id,)) is None
    )


def _places(job: Job | None, holds: bool) -> list[tuple[str, str, str, int, int]]:
    """Where a finished job stands among the others."""
    if job is None or job.finished_at is None:
        return []
    spec = job.spec
    stages = [] if job.retired else [HOLDING if holds else BARE]
    if spec.idempotency_key is not None:
        stages.append(KEYED)
    return [(f"{stage}/{job.state.value}", spec.queue, spec.kind, job.finished_at, spec.position) for stage in stages]


def attempt_errors(rows: Rows, job_id: str) -> tuple[int, ...]:
    """Positions of the errors of a job that the store has."""
    stored = rows.row(ATTEMPT_ERRORS, (job_id,)) or b""
    return tuple(int.from_bytes(stored[at : at + 8]) for at in range(0, len(stored), 8))


def ending_lanes(rows: Rows, stage: str) -> Iterator[tuple[EndingLane, int]]:
    """See store.contract.Reader."""
    for state in sorted(FINISHED):
        for key, _ in rows.heads(ENDINGS, 3, (f"{stage}/{state}",)):
            yield EndingLane(stage, state, key[1], key[2]), key[3]


def ended(rows: Rows, lane: EndingLane, until: int, limit: int) -> list[str]:
    """See store.contract.Reader."""
    found = rows.rows(ENDINGS, (f"{lane.stage}/{lane.state}", lane.queue, lane.kind))
    due = takewhile(lambda row: row[0][3] <= until, found)
    return [job_id.decode() for _, job_id in islice(due, limit)]


INDEXES: tuple[Projection, ...] = (
    JobRows(),
    ReadyOrder(),
    Expiries(),
    IdempotencyKeys(),
    LeaseRequests(),
    Endings(),
)
"""In the order in which they are brought up to date."""
