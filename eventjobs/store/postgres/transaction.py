"""The write transaction: decided in memory on what was loaded, written in one round trip with its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from eventjobs.domain.content import Content
from eventjobs.domain.decide import KeyHolder
from eventjobs.domain.events import (
    ERASING,
    IdempotencyKeyForgotten,
    JobEnqueued,
    JobLeased,
    Record,
    erased_positions,
)
from eventjobs.domain.intake import NotEnqueued
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.limits import LEASE_JOBS_MAX
from eventjobs.domain.projection import Key, Projection, Table, Value
from eventjobs.store.appending import Appending
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Grant
from eventjobs.store.indexes import LEASE_REQUEST_MEMORY, attempt_errors, text_digest
from eventjobs.store.keys import KeyCodec
from eventjobs.store.merkle import leaf_hash
from eventjobs.store.postgres.arrays import Bytes
from eventjobs.store.postgres.connection import Session
from eventjobs.store.postgres.loading import (
    CANDIDATES,
    EXPIRED,
    HOLDERS,
    NO_LOWS,
    REQUESTS,
    Loaded,
    Locked,
    Lows,
    candidates,
    filter_of,
    holder,
    leasing_order,
    sound_job,
    sound_jobs,
)
from eventjobs.store.postgres.pending import Pending
from eventjobs.store.postgres.reader import PostgresReader, StoredHead
from eventjobs.store.postgres.schema import projection_table


class PostgresTransaction(Appending, PostgresReader):
    """See store.contract.Transaction. Owned by the writer thread; ended by the engine."""

    def __init__(
        self,
        session: Session,
        codecs: dict[Table, KeyCodec],
        projections: Sequence[Projection],
        loaded: Loaded,
        own_clock: bool,
    ) -> None:
        """`own_clock`: the database tells the time, whatever the caller's clock says."""
        super().__init__(session, codecs, loaded.head)
        self._projections = projections
        self._loaded, self._own_clock = loaded, own_clock
        self._begun_at = loaded.head.frontier.size
        self._frontier = loaded.head.frontier.copy()
        self._now = max(loaded.clock, loaded.head.last_time)
        self.last_time = loaded.head.last_time
        self._jobs: dict[str, Job | None] = loaded.jobs
        self._changed: dict[str, Job] = {}
        self._keys: dict[bytes, str] = {}
        self._forgotten: set[bytes] = set()
        self._requests: dict[bytes, tuple[int, int]] = {}
        self._contents: dict[int, bytes] = {}
        self._leased: list[Job] = []
        self.pending = Pending(codecs)
        self._written = self._settled = False

    @property
    def appended(self) -> int:
        """How many records."""
        return self._frontier.size - self._begun_at

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to be committed."""
        return self.appended > 0 or self._settled

    @property
    def begun_at(self) -> int:
        """The log's size before."""
        return self._begun_at

    def stored_head(self) -> StoredHead:
        return StoredHead(self.last_time, self._frontier)

    def now(self, wanted: int) -> int:
        return max(self._now if self._own_clock else wanted, self.last_time)

    def _fetch(self, query: str, parameters: tuple = ()) -> list[tuple]:
        """What is pending is written first, so that it is found."""
        if self.pending:
            self.write()
        return super()._fetch(query, parameters)

    def _look_up(self, query: str, parameters: tuple) -> list[tuple]:
        """As `_fetch`, for what would have been found in memory if this transaction had changed it."""
        return super()._fetch(query, parameters)

    def row(self, table: Table, key: Key) -> Value | None:
        """From memory when it was loaded or changed here; else it is asked for, and what is pending can wait."""
        if table.counters:
            return super().row(table, key)
        encoded = self._codecs[table].encode(key)
        known, value = self.pending.row(table, encoded)
        if known:
            return value
        rows = self._loaded.rows.get(table, {})
        if encoded in rows and not self._written:
            return rows[encoded]
        found = self._look_up(f"SELECT value FROM {projection_table(table)} WHERE key = %s", (encoded,))
        return unseal(encoded, found[0][0], table.name) if found else None

    def write(self) -> None:
        """Write what is pending, without a commit."""
        statements = self.pending.statements()
        self.pending.clear()
        self._written = True
        self._asks.write(statements)

    # Reading for decisions ------------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job | None:
        """Not locked, for it is only looked at: under the append lock nobody else can change it."""
        if job_id in self._jobs:
            job = self._jobs[job_id]
        else:
            found = self._look_up("SELECT value FROM eventjobs.jobs WHERE id = %s::uuid", (job_id,))
            job = sound_job(found[0][0]) if found else None
        return None if job is None or job.retired else job

    def kept(self, job_id: str) -> Job | None:
        """Locked; a job that another transaction holds is not waited for, but makes this one be tried again."""
        if job_id in self._jobs:
            return self._jobs[job_id]
        query = "SELECT value FROM eventjobs.jobs WHERE id = %s::uuid FOR UPDATE NOWAIT"
        found = self._look_up(query, (job_id,))
        self._jobs[job_id] = sound_job(found[0][0]) if found else None
        return self._jobs[job_id]

    def errors_of(self, job_id: str) -> tuple[int, ...]:
        return attempt_errors(self, job_id)

    def content(self, ref: ContentRef) -> bytes:
        kept = self._contents.get(ref.position)
        return super().content(ref) if kept is None else kept

    def key_holder(self, idempotency_key: str) -> KeyHolder | None:
        digest = text_digest(idempotency_key)
        if digest in self._forgotten:
            return None
        if (job_id := self._keys.get(digest)) is not None:
            job = self._jobs[job_id]
            return KeyHolder(job, None if job.spec.payload is None else self.content(job.spec.payload))
        if digest in self._loaded.known_keys:
            found = self._loaded.holders.get(digest)
        else:
            rows = self._look_up(HOLDERS, (Bytes([digest]),))
            found = holder(rows[0])[1] if rows else None
        if found is None:
            return None
        job, payload = found
        return KeyHolder(self._jobs.get(job.id) or job, payload)

    def candidates(self, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int) -> list[Job]:
        def wanted(job: Job) -> bool:
            spec = job.spec
            due = job.waiting and job.run_at <= now
            return due and (queues is None or spec.queue in queues) and (kinds is None or spec.kind in kinds)

        locked = self._loaded.candidates.get(filter_of(queues, kinds)) if self._own_clock else None
        found = self._from_locked(locked, wanted, limit)
        if found is None:
            rows = self._fetch(CANDIDATES.format(due="%s::bigint"), _with_time(now, queues, kinds, limit))
            found = self._taken_in(sound_jobs(row[0] for row in rows))
        return sorted(found, key=leasing_order)[:limit]

    def expired(self, now: int, limit: int) -> list[Job]:
        def over(job: Job) -> bool:
            return job.lease is not None and job.lease.expires_at <= now

        found = self._from_locked(self._loaded.expired if self._own_clock else None, over, limit)
        if found is None:
            rows = self._fetch(EXPIRED.format(due="%s"), (now, limit))
            found = self._taken_in(sound_jobs(row[0] for row in rows))
        return sorted(found, key=lambda job: (job.lease.expires_at, job.spec.position))[:limit]

    def _from_locked(self, locked: Locked | None, wanted: Callable[[Job], bool], limit: int) -> list[Job] | None:
        """What there is of the locked jobs and of those that this transaction changed; None when there may be more."""
        if locked is None:
            return None
        left = [job for job in locked.jobs if job.id not in self._changed]
        if not locked.all_there_is and len(left) < limit:
            return None
        return [job for job in (*left, *self._changed.values()) if wanted(job)]

    def _taken_in(self, jobs: list[Job]) -> list[Job]:
        """Jobs as they were read, which are locked from now on."""
        for job in jobs:
            self._jobs[job.id] = job
        return jobs

    def grants(self, worker: str, request_id: str, now: int) -> list[Grant] | None:
        first = self._first_grant(text_digest(worker, request_id), now)
        return None if first is None else list(self._grants_from(first, worker, request_id))

    def _first_grant(self, digest: bytes, now: int) -> int | None:
        """The position of the request's first grant, if it was made within the last day."""
        found = self._requests.get(digest)
        if found is None and digest in self._loaded.requests:
            found = self._loaded.requests[digest]
        elif found is None:
            rows = self._look_up(REQUESTS, (Bytes([digest]),))
            found = rows[0][1:] if rows else None
            self._loaded.requests[digest] = found
        return found[0] if found is not None and found[1] > now - LEASE_REQUEST_MEMORY else None

    def _grants_from(self, position: int, worker: str, request_id: str) -> Iterator[Grant]:
        """A request's grants were appended by one command: they are the unbroken run of its records."""

        def granted(record: Record) -> bool:
            event = record.event
            return isinstance(event, JobLeased) and (event.worker, event.request_id) == (worker, request_id)

        for record in takewhile(granted, self.records(position - 1, LEASE_JOBS_MAX)):
            yield Grant(record.job_id, record.event.token)

    def still_asked(self, number: int) -> bool:
        return number in self._loaded.asked

    # Writing --------------------------------------------------------------------------------------------------

    def _log_size(self) -> int:
        return self._frontier.size

    def _take(self, before: Job | None, record: Record, text: bytes, after: Job, content: Content | None) -> None:
        """Put a record where it belongs, with all that follows from it."""
        position, job_id = record.position, record.job_id
        self.pending.record(position, text, content, self._frontier.append(leaf_hash(text)))
        self.pending.job(after, before is None)
        self.last_time = record.time
        self._jobs[job_id] = self._changed[job_id] = after
        if content is not None:
            self._contents[position] = content.text
        self._remember(before, record)
        self._project(before, record, after)

    def _remember(self, before: Job | None, record: Record) -> None:
        """Keys, lease requests and what was leased."""
        event = record.event
        if type(event) is JobEnqueued and event.idempotency_key is not None:
            self._keys[text_digest(event.idempotency_key)] = record.job_id
            self._forgotten.discard(text_digest(event.idempotency_key))
        elif type(event) is IdempotencyKeyForgotten:
            digest = text_digest(before.spec.idempotency_key)
            self._keys.pop(digest, None)
            self._forgotten.add(digest)
        elif type(event) in ERASING:
            self.pending.erase(erased_positions(event))
        elif type(event) is JobLeased:
            self._leased.append(before)
            self._remember_request(event, record)

    def _remember_request(self, event: JobLeased, record: Record) -> None:
        if event.request_id is None:
            return
        digest = text_digest(event.worker, event.request_id)
        if self._first_grant(digest, record.time) is None:
            self._requests[digest] = (record.position, record.time)
            self.pending.request(digest, record.position, record.time)

    def _project(self, before: Job | None, record: Record, after: Job) -> None:
        """Bring the projections up to the record."""
        change = self.pending.change
        for projection in self._projections:
            for table, key, value in projection.project(self, before, record, after):
                change(table, key, value)

    def settle_asked(self, number: int, refusal: NotEnqueued | None) -> None:
        self.pending.settle(number, refusal)
        self._settled = True

    def fold(self, before: Job | None, record: Record, after: Job, jobs_too: bool) -> None:
        """Bring the projections up to a record that is in the log, and if wanted the job's own row."""
        if jobs_too:
            self.pending.job(after, before is None)
            if type(record.event) is JobLeased:
                self._remember_request(record.event, record)
        self._project(before, record, after)

    def lower(self, lows: Lows) -> None:
        """After the commit: tell what was leased, and what waits now."""
        lows.leased(self._leased)
        for job in self._changed.values():
            if job.waiting:
                lows.waiting(job)


def _with_time(now: int, queues: Sequence[str] | None, kinds: Sequence[str] | None, limit: int) -> tuple:
    queues, kinds, *rest = candidates(queues, kinds, limit, NO_LOWS)
    return queues, kinds, now, *rest
