"""Job rows, indexes and read models of a store, held against what the fold of its log makes."""

from __future__ import annotations

from collections.abc import Callable

from eventjobs.domain.job import Job
from eventjobs.domain.projection import Projection, Table
from eventjobs.domain.value import field_names
from eventjobs.store.codec import decode_job, unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.indexes import JOBS, JobRows
from eventjobs.store.keys import uuid_text
from eventjobs.store.lmdb.snapshot import Snapshot
from eventjobs.store.lmdb.tables import META, PROJECTION_PREFIX, decode_progress
from eventjobs.tools.verify.fold import Fold
from eventjobs.tools.verify.report import Check, counted
from eventjobs.tools.verify.tables import damaged, differences

UUID_BYTES = 16

WORDS = {
    "row_missing": "is missing",
    "row_extra": "is one that the log does not make",
    "row_damaged": "fails its checksum",
    "row_wrong": "is not what the log makes of it",
}


def database(table: Table) -> str:
    """The name of the database that holds a table."""
    return f"projection/{table.name}"


class Comparison:
    """Compares what is stored with what was folded. `size` is the log's; `step` is told of each table that is done."""

    def __init__(self, snapshot: Snapshot, fold: Fold, size: int, step: Callable[[int], None]) -> None:
        self._snapshot, self._fold, self._size, self._step = snapshot, fold, size, step

    def jobs(self, check: Check) -> None:
        """The row of each job. Of an incomplete fold, those of the jobs that it followed to their end."""
        if not self._up_to_date(JobRows(), check):
            return
        rows = self._snapshot.rows(database(JOBS))
        unjudged = 0
        try:
            for sort, key, stored, folded in differences(rows, self._fold.job_rows()):
                if sort != "row_damaged" and self._beyond_the_fold(key, stored, folded):
                    unjudged += 1
                else:
                    check.fault(sort, f"the row of job {_job_name(key)} {_about(sort, stored, folded)}")
        except Corrupt as error:
            check.fault("unreadable", str(error))
        check.facts = counted(self._snapshot.count(database(JOBS)), "row")
        if unjudged:
            check.leave(f"{counted(unjudged, 'row')} may tell of records that could not be read")
        self._step(self._snapshot.count(database(JOBS)))

    def _beyond_the_fold(self, key: bytes, stored: bytes | None, folded: bytes | None) -> bool:
        """Whether a row may be right although the fold does not have it: the fold lacks records of its job."""
        if self._fold.complete:
            return False
        if _job_name(key) in self._fold.lost:
            return True
        if not self._fold.unread:
            return False
        try:
            if stored is None:  # what could not be read may have retired the job
                return decode_job(folded).finished_at is not None
            return folded is None or decode_job(stored).version > decode_job(folded).version
        except Corrupt:
            return False

    def projection(self, projection: Projection, check: Check) -> None:
        """The tables of an index or a read model."""
        if not self._up_to_date(projection, check):
            return
        if not self._fold.complete:
            check.leave("not compared, as the log cannot be followed to its end")
        count = 0
        for table in projection.tables:
            rows = self._snapshot.rows(database(table))
            found = differences(rows, self._fold.tables.folded(table)) if self._fold.complete else damaged(rows)
            try:
                for sort, key, _, _ in found:
                    check.fault(sort, f"{table.name}: the row ({self._fold.tables.name_of(table, key)}) {WORDS[sort]}")
            except Corrupt as error:
                check.fault("unreadable", str(error))
            count += self._snapshot.count(database(table))
        check.facts = counted(count, "row")
        self._step(count)

    def _up_to_date(self, projection: Projection, check: Check) -> bool:
        """Whether the tables claim to be of this code's rule, and of the whole log. Others are made anew at a start."""
        key = PROJECTION_PREFIX + projection.name.encode()
        try:
            stored = self._snapshot.stored(META, key)
            progress = None if stored is None else decode_progress(unseal(key, stored, META))
        except Corrupt as error:
            check.fault("progress_damaged", str(error))
            return False
        if progress == (projection.version, self._size):
            return True
        if progress is not None and progress[0] > projection.version:
            check.leave(f"it has version {progress[0]}, which a newer eventjobs made")
        else:
            check.leave("it is out of date; the next start makes it anew")
        return False


def _job_name(key: bytes) -> str:
    return uuid_text(key) if len(key) == UUID_BYTES else key.hex()


def _about(sort: str, stored: bytes | None, folded: bytes | None) -> str:
    if sort != "row_wrong":
        return WORDS[sort]
    try:
        kept, made = decode_job(stored), decode_job(folded)
    except Corrupt:
        return WORDS[sort]
    parts = [
        f"{name} is {getattr(kept, name)}, the log makes {getattr(made, name)}"
        for name in field_names(Job)
        if getattr(kept, name) != getattr(made, name)
    ]
    return f"{WORDS[sort]}: {'; '.join(parts)}"
