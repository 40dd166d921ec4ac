"""The projections the coordinator decides by: job rows, ready order, lease expiries, idempotency keys, lease requests.

Each is a pure fold like any read model; engines with indexes of their own may keep them as columns instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import msgspec

from eventjobs.domain.events import JobEnqueued, JobLeased, Record
from eventjobs.domain.job import Job
from eventjobs.domain.limits import LEASE_REQUEST_MEMORY_SECONDS, MICROSECONDS
from eventjobs.domain.projection import Change, Part, Projection, Rows, Table
from eventjobs.store.codec import encode_job

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


@lru_cache(DIGESTS_REMEMBERED)
def text_digest(*texts: str) -> bytes:
    """SHA-256 over texts of any length, kept apart by their lengths."""
    return hashlib.sha256(b"".join(b"%d:%b" % (len(data), data) for data in map(str.encode, texts))).digest()


class JobRows:
    """Each job as it stands, by its id."""

    name, version, tables = "jobs", 1, (JOBS,)

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        return ((JOBS, (record.job_id,), encode_job(after)),)


class ReadyOrder:
    """Waiting jobs by lane (queue and kind). Nothing moves when a scheduled job comes due: the order holds its time."""

    name, version, tables = "ready", 1, (READY, DUE)

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

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        event = record.event
        if not isinstance(event, JobEnqueued) or event.idempotency_key is None:
            return ()
        return ((KEYS, (text_digest(event.idempotency_key),), record.job_id.encode()),)


class LeaseRequests:
    """Which lease requests were granted something, for a day. The grants are the records from the first one on.

    Each new request makes the two oldest that have passed a day be forgotten, so the table stays bounded.
    """

    name, version, tables = "lease_requests", 1, (LEASE_REQUESTS, LEASE_REQUEST_AGES)

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


INDEXES: tuple[Projection, ...] = (JobRows(), ReadyOrder(), Expiries(), IdempotencyKeys(), LeaseRequests())
"""In the order in which they are brought up to date."""
