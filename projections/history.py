"""Histories: where in the log each job's records lie, as long as the job is in the live store.

Key: (job id, version). Value: the record's position, 8 bytes big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from eventjobs.domain.events import Record
from eventjobs.domain.job import Job
from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Rows, Table

TABLE = Table("history", (Part.UUID, Part.NUMBER), put_once=True)


class History:
    """Keeps one row a record; a retired job's rows go."""

    name = "history"
    version = 1
    tables = (TABLE,)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        if after.retired:
            earlier = range(1, record.version) if not before.retired else ()
            return [(TABLE, (record.job_id, version), None) for version in earlier]
        return ((TABLE, (record.job_id, record.version), record.position.to_bytes(8)),)


def positions(reader: Rows, job_id: str, after_version: int = 0, limit: int | None = None) -> list[int]:
    """Positions of the job's records with versions above `after_version`, in order; empty for an unknown job."""
    found = reader.rows(TABLE, (job_id,), (job_id, after_version))
    return [int.from_bytes(position) for _, position in islice(found, limit)]


def latest(reader: Rows, job_id: str) -> Iterator[int]:
    """The same from the newest one back."""
    return (int.from_bytes(position) for _, position in reader.rows(TABLE, (job_id,), reverse=True))
