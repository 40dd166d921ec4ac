"""The fold of a log up to a position: every job as it stood, and what changed between two positions.

The records are believed, and the first that cannot be taken ends it; `tools/verify/fold.py` holds each against its job.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator

from attrs import frozen

from eventjobs.api.render_why import ENDS
from eventjobs.domain.events import ContentsErased, JobRequeued, JobRetired, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.store.codec import decode_job, decode_record, encode_job, encode_record
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.tools.replay.shelf import Shelf
from eventjobs.tools.source import Source

IMPOSSIBLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What folding may run into in a record that nobody decided."""

Step = tuple[Job | None, Record, Job]
"""(the job before, the record, the job after)"""


@frozen
class Changed:
    """A job that changed between two positions: before (None: it was not there), after, and its last record."""

    before: Job | None
    after: Job
    last: Record

    @property
    def records(self) -> int:
        """How many records it has between the two."""
        return self.after.version - (0 if self.before is None else self.before.version)


class Fold:
    """All jobs as of `position`, from the records of a source. Everything raises Corrupt, naming the position."""

    def __init__(self, source: Source, scratch: Scratch) -> None:
        self._source = source
        self._jobs: Shelf[Job] = Shelf(scratch, "jobs", encode_job, decode_job)
        self._before: Shelf[bytes] = Shelf(scratch, "before", bytes, bytes)
        self._last: Shelf[bytes] = Shelf(scratch, "last", bytes, bytes)
        self.position = 0

    def advance(self, position: int) -> Iterator[Step]:
        """Take the records up to a position; each with its job before and after it."""
        for place, text in self._source.texts(self.position) if position > self.position else ():
            yield self._take(place, text)
            self.position = place
            if place == position:
                break

    def compare(self, position: int, wanted: Callable[[Job], bool]) -> Counter[str]:
        """Take the records up to a position, and note what changes of the wanted jobs; how many records of each type
        these have."""
        types: Counter[str] = Counter()
        for before, record, after in self.advance(position):
            if not wanted(after):
                continue
            types[record.event.type] += 1
            if self._last.get(record.job_id) is None:
                self._before.put(record.job_id, b"-" if before is None else encode_job(before))
            self._last.put(record.job_id, encode_record(record))
        return types

    def jobs(self) -> Iterator[Job]:
        """Every job that is there at the position, in the order of ids: those that were retired are not any more."""
        return (job for _, job in self._jobs.items() if not job.retired)

    def changed(self) -> Iterator[Changed]:
        """The wanted jobs that changed while the positions were compared, in the order of ids."""
        lasts = self._last.items()
        for (job_id, before), (_, last) in zip(self._before.items(), lasts, strict=True):
            yield Changed(None if before == b"-" else decode_job(before), self._jobs.get(job_id), decode_record(last))

    def _take(self, position: int, text: bytes) -> Step:
        record = _read(position, text)
        try:
            before = self._jobs.get(record.job_id)
            _check_version(record, 1 if before is None else before.version + 1)
            after = evolve(before, record)
            self._jobs.put(record.job_id, after)
        except IMPOSSIBLE as error:
            raise Corrupt(
                f"position {position}, {record.event.type} of job {record.job_id}, cannot have happened; "
                "`eventjobs verify` tells more"
            ) from error
        return before, record, after


@frozen
class JobAt:
    """A job as of a position, and those of its records that tell how it came to rest: by which it was retired before,
    which ended it, and which erased contents of it since."""

    job: Job
    retired: Record | None
    ended: Record | None
    erasures: tuple[Record, ...]


def job_at(source: Source, job_id: str, position: int) -> JobAt | None:
    """One job as of a position: only its own records are looked at. None when there was no such job yet."""
    job = retired = ended = None
    erasures: list[Record] = []
    for record in records_of(source, job_id, position):
        try:
            job = evolve(job, record)
        except IMPOSSIBLE as error:
            raise Corrupt(f"position {record.position} cannot have happened; `eventjobs verify` tells more") from error
        if isinstance(record.event, (*ENDS, JobRequeued)):
            ended = record if isinstance(record.event, ENDS) else None
            erasures = []
        elif isinstance(record.event, ContentsErased):
            erasures.append(record)
        elif isinstance(record.event, JobRetired):
            retired = record
    return None if job is None else JobAt(job, retired, ended, tuple(erasures))


def records_of(source: Source, job_id: str, until: int | None = None) -> Iterator[Record]:
    """The records of one job, in order, up to a position. Raises Corrupt where one of them is missing."""
    for version, (position, text) in enumerate(source.texts_of(job_id, until), 1):
        record = _read(position, text)
        _check_version(record, version)
        yield record


def _check_version(record: Record, wanted: int) -> None:
    if record.version != wanted:
        raise Corrupt(
            f"position {record.position} is version {record.version} of job {record.job_id}, after {wanted - 1}; "
            "`eventjobs verify` tells more"
        )


def _read(position: int, text: bytes) -> Record:
    """The record of a text. Raises Corrupt, and StoreError for a format that a newer eventjobs wrote."""
    try:
        record = decode_record(text)
    except Corrupt as error:
        raise Corrupt(f"position {position}: {error}") from error
    if record.position != position:
        raise Corrupt(f"the record at position {position} says that it belongs at {record.position}: it was moved")
    return record
