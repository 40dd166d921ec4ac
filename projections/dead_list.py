"""The dead list: the jobs that were given up and have not been requeued, in the order of their arrival.

Key: (queue, kind, position of job_enqueued). Value: the job's id as ASCII text.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventjobs.domain.events import Record
from eventjobs.domain.job import Job, State
from eventjobs.domain.projection import EVERY_EVENT, Change, Part, Rows, Table
from eventjobs.projections import lanes

TABLE = Table("dead_list", (Part.NAME, Part.NAME, Part.NUMBER), put_once=True)


class DeadList:
    """Keeps one row for each dead job."""

    name = "dead_list"
    version = 1
    tables = (TABLE,)
    handles = EVERY_EVENT

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        dead = _listed(after)
        if dead == (before is not None and _listed(before)):
            return ()
        spec = after.spec
        return ((TABLE, (spec.queue, spec.kind, spec.position), spec.id.encode() if dead else None),)


def _listed(job: Job) -> bool:
    return job.state is State.DEAD and not job.retired


def page(
    reader: Rows, *, kind: str | None, queue: str | None, limit: int, below: int | None = None
) -> list[tuple[int, str]]:
    """Up to `limit` dead jobs as (enqueue position, job id), newest first, strictly below `below`; None means any."""
    return _decoded(lanes.newest(reader, TABLE, (queue, kind), below, limit))


def oldest(
    reader: Rows, *, kind: str | None, queue: str | None, limit: int, above: int | None = None
) -> list[tuple[int, str]]:
    """Up to `limit` dead jobs as (enqueue position, job id), oldest first, strictly above `above`; None means any."""
    return _decoded(lanes.oldest(reader, TABLE, (queue, kind), above, limit))


def _decoded(found: list[tuple[int, bytes]]) -> list[tuple[int, str]]:
    return [(position, job_id.decode()) for position, job_id in found]
