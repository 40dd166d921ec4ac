"""Folding the log: each record read, held against its job as it was, and let take its effect on jobs and tables.

It differs from the fold of `tools/replay` in that it goes on after a fault, which costs the job that it touches alone,
and that retired jobs leave it as they leave the store. Its jobs are not on that one's `Shelf` for two reasons: the ids
of forged records need not be UUIDs, and two calls more for each record are felt in a whole log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from eventjobs.domain.events import Event, JobEnqueued, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection
from eventjobs.store.codec import decode_job, decode_record, encode_job, encode_record, is_of_older_format
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.indexes import INDEXES, JOBS, KEYS, JobRows, attempt_errors, text_digest
from eventjobs.store.keys import uuid_bytes
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.tools.verify.contents import ERASING, ContentWalk
from eventjobs.tools.verify.lifecycle import OutOfBounds, fault_of
from eventjobs.tools.verify.report import Check
from eventjobs.tools.verify.tables import FoldedTables
from eventjobs.tools.verify.walk import Block

GONE = "gone"
"""The scratch store's table of jobs that have no row any more: an id that was used once must not begin again."""
JOBS_IN_MEMORY_MAX = 30_000
"""Jobs that changed lately; the others are in the scratch store."""

IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What evolve and projections may run into once an event was let in that cannot have happened."""


class Fold:
    """Takes the blocks of the log in order. `tables` has the projections that came out, but for the job rows."""

    def __init__(
        self, scratch: Scratch, read_models: Sequence[Projection], records: Check, events: Check, contents: ContentWalk
    ) -> None:
        """Faults of single records go to `records`, events that cannot have happened to `events`."""
        self._scratch, self._records, self._events, self._contents = scratch, records, events, contents
        self.projections = [*(each for each in INDEXES if not isinstance(each, JobRows)), *read_models]
        self.tables = FoldedTables(self.projections, scratch)
        self._jobs: dict[str, Job] = {}
        self._gone: set[str] = set()
        """Jobs whose rows went lately; earlier ones are in the scratch store, under GONE."""
        self._spilled = self._went = False
        self.records = self.unread = self.last_time = 0
        self.followed = 0
        """Jobs of which every record so far could be followed."""
        self.lost: dict[str, int] = {}
        """Jobs that cannot be followed further: by id, the last version seen."""

    @property
    def complete(self) -> bool:
        """Whether every record took its effect."""
        return not self.unread and not self.lost

    def block(self, block: Block) -> None:
        """The next block. It runs for every record there is, so nothing is called that need not be."""
        jobs, lost, take, content_of = self._jobs, self.lost, self.tables.take, self._contents.record
        for position, text in enumerate(block.texts, block.first):
            record = None if text is None else self._read(position, text)
            if record is None:
                self.unread += 1
                self._contents.unknown(position)
                continue
            event, job_id = record.event, record.job_id
            content_of(position, event)
            before = jobs.get(job_id)
            if before is None and self._spilled:
                before = self._recall(job_id)
            if job_id in lost or record.version != (1 if before is None else before.version + 1):
                self._gap(record, before)
                continue
            fault = None
            try:
                holder = self._key_holder(event) if type(event) is JobEnqueued else None
                errors = attempt_errors(self.tables, job_id) if type(event) in ERASING else ()
                fault = fault_of(before, record, holder, errors)
                if before is None and fault is None:
                    fault = self._fault_of_beginning(job_id)
                after = evolve(before, record)
                take(before, record, after)
            except (OutOfBounds, *IMPOSSIBLE) as error:
                self._illegal(record, fault or str(error) or repr(error))
                self._lose(record, before)
                continue
            jobs[job_id] = after
            if after.retired:
                self._retired(after)
            if fault is not None:
                self._illegal(record, fault)
            if before is None:
                self.followed += 1
        self.records += len(block.texts)
        if len(jobs) + len(self._gone) > JOBS_IN_MEMORY_MAX:
            self._spill()
        self.tables.settle()

    def _read(self, position: int, text: bytes) -> Record | None:
        """The record of a text whose checksum is right, if it is one."""
        try:
            record = decode_record(text)
        except Corrupt as error:
            self._records.fault("record_malformed", f"position {position}: {error}", position)
            return None
        except StoreError as error:
            self._records.leave(str(error))
            return None
        if encode_record(record) != text and not is_of_older_format(text, record):
            where = f"the record at position {position}"
            fault = f"{where} is not in the form this program writes: other members, order, spaces or numbers"
            self._records.fault("record_form", fault, position)
        if record.position != position:
            text = f"the record at position {position} says that it belongs at {record.position}: it was moved"
            self._records.fault("record_moved", text, position)
        if record.time < self.last_time:
            self._records.fault("time_backwards", f"position {position} is older than the one before it", position)
        self.last_time = record.time
        return record

    def _gap(self, record: Record, before: Job | None) -> None:
        """A record that does not follow the last one of its job: from here on the job cannot be followed."""
        known = self.lost.get(record.job_id, 0 if before is None else before.version)
        if not 0 <= record.version - known - 1 <= self.unread:  # else what is between may be what could not be read
            text = f"position {record.position} is version {record.version} of job {record.job_id}, after {known}"
            self._events.fault("version_gap", text, record.position)
        self._lose(record, before)

    def _lose(self, record: Record, before: Job | None) -> None:
        if before is not None and record.job_id not in self.lost:
            self.followed -= 1
        self.lost[record.job_id] = record.version

    def _illegal(self, record: Record, why: str) -> None:
        text = f"position {record.position}, {record.event.type} of job {record.job_id}: {why}"
        self._events.fault("event_illegal", text, record.position)

    def _key_holder(self, event: Event) -> str | None:
        """Who has the key of a job_enqueued."""
        if event.idempotency_key is None:
            return None
        holder = self.tables.row(KEYS, (text_digest(event.idempotency_key),))
        return None if holder is None else holder.decode()

    def _retired(self, job: Job) -> None:
        """Of a job that is retired only its key keeps a row."""
        if job.spec.idempotency_key is None:
            del self._jobs[job.id]
            self._gone.add(job.id)

    def _fault_of_beginning(self, job_id: str) -> str | None:
        """Why there may be no new job with this id, if there was one before of which nothing is left."""
        if job_id not in self._gone and not (self._went and self._scratch.get(GONE, _job_key(job_id)) is not None):
            return None
        self._gone.discard(job_id)
        return "there was a job with this id before, which was retired: no id begins again"

    def _recall(self, job_id: str) -> Job | None:
        if job_id in self._gone:
            return None
        row = self._scratch.get(JOBS.name, _job_key(job_id))
        return None if row is None else decode_job(row)

    def _spill(self) -> None:
        rows = sorted((_job_key(job_id), encode_job(job)) for job_id, job in self._jobs.items())
        gone = sorted(_job_key(job_id) for job_id in self._gone)
        self._scratch.write(JOBS.name, rows, gone)
        self._scratch.write(GONE, [(key, b"") for key in gone])
        self._went = self._went or bool(gone)
        self._jobs.clear()
        self._gone.clear()
        self._spilled = True

    def job_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """The job rows, in the order of their keys."""
        self._spill()
        return self._scratch.rows(JOBS.name)


def _job_key(job_id: str) -> bytes:
    try:
        return uuid_bytes(job_id)
    except ValueError:  # of a forged record: a job that never was
        return job_id.encode()
