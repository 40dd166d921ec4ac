"""The job listing: every job by queue, kind and state, in the order of arrival.

Key: (queue, kind, state, position of job_enqueued). Value: the job's id as ASCII text.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventjobs.domain.events import Record
from eventjobs.domain.job import Job, State
from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Rows, Table
from eventjobs.projections.lanes import newest

TABLE = Table("listing", (Part.NAME, Part.NAME, Part.NAME, Part.NUMBER), put_once=True)


class Listing:
    """Keeps one row a job, moved from lane to lane as its state changes, until the job is retired."""

    name = "listing"
    version = 1
    tables = (TABLE,)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        spec = after.spec
        if before is None:
            return ((TABLE, (spec.queue, spec.kind, after.state, spec.position), spec.id.encode()),)
        if before.retired or (before.state is after.state and not after.retired):
            return ()
        if after.retired:
            return ((TABLE, (spec.queue, spec.kind, before.state, spec.position), None),)
        return (
            (TABLE, (spec.queue, spec.kind, before.state, spec.position), None),
            (TABLE, (spec.queue, spec.kind, after.state, spec.position), spec.id.encode()),
        )


def page(
    reader: Rows, *, state: State | None, kind: str | None, queue: str | None, below: int | None, limit: int
) -> list[tuple[int, str]]:
    """Up to `limit` (enqueue position, job id), newest first, strictly below `below`; None means any.

    A page is stable under writes: jobs that arrive later have higher positions and are not on pages further down.
    """
    found = newest(reader, TABLE, (queue, kind, state), below, limit)
    return [(position, job_id.decode()) for position, job_id in found]
