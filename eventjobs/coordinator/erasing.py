"""Which finished jobs still have contents that could be erased."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from eventjobs.domain.job import Job, State
from eventjobs.store.contract import HOLDING, Reader


@frozen
class Choice:
    """Finished jobs in this state, of this kind, of this queue (None: any) that ended at this time (microseconds) or
    before."""

    state: State | None
    kind: str | None
    queue: str | None
    until: int


def erasable(reader: Reader, choice: Choice, limit: int) -> list[Job]:
    """Up to `limit` jobs of the choice that have contents: lane by lane, the one with the oldest end first, and in each
    the oldest end first. Costs a seek for each lane and a read for each job."""
    lanes = sorted(reader.ending_lanes(HOLDING), key=lambda found: found[1])
    jobs: list[Job] = []
    for lane, earliest in lanes:
        if len(jobs) == limit or earliest > choice.until:
            break
        if (
            choice.state in (None, lane.state)
            and choice.kind in (None, lane.kind)
            and choice.queue in (None, lane.queue)
        ):
            jobs += [reader.job(job_id) for job_id in reader.ended(lane, choice.until, limit - len(jobs))]
    return jobs


def erasable_of(reader: Reader, choice: Choice, ids: Sequence[str]) -> list[Job]:
    """Those of the named jobs that are of the choice; some may have no contents any more."""
    jobs = [job for job_id in ids if (job := reader.job(job_id)) is not None and _fits(choice, job)]
    return sorted(jobs, key=lambda job: (job.finished_at, job.spec.position))


def _fits(choice: Choice, job: Job) -> bool:
    return (
        job.finished_at is not None
        and not job.retired
        and job.finished_at <= choice.until
        and _chosen(choice, job.state, job.spec.kind, job.spec.queue)
    )


def _chosen(choice: Choice, state: State, kind: str, queue: str) -> bool:
    return choice.state in (None, state) and choice.kind in (None, kind) and choice.queue in (None, queue)
