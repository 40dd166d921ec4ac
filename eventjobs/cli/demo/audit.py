"""What must hold when the demo is over. Everything is read back from the coordinator and computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventjobs.cli.demo.ledger import Ledger, Story
from eventjobs.cli.demo.plan import FLAKY_FAILURES, Sort, Task


def audit(
    ledger: Ledger,
    head_size: int,
    tasks: Sequence[Task],
    jobs: Sequence[Mapping[str, msgspec.Raw]],
    right: Mapping[str, Any],
) -> list[str]:
    """Every fault, in words; empty when all is well.

    `ledger` is the whole log folded from its first event, `jobs` the jobs as the coordinator lists them (values as
    JSON text), `right` the result each path must have.
    """
    faults = list(ledger.faults)
    if ledger.position != head_size:
        faults.append(f"the head says {head_size} events, the log has {ledger.position}")
    sorts = {task.path: task.sort for task in tasks}
    seen: set[str] = set()
    for job in jobs:
        job_id, path = msgspec.json.decode(job["id"]), msgspec.json.decode(job["payload"])["path"]
        story = ledger.stories.get(job_id)
        if story is None or path not in sorts or path in seen:
            faults.append(f"job {job_id} for {path}: nobody asked for it, or it is there twice")
            continue
        seen.add(path)
        faults.extend(
            f"job {job_id} for {path}: {fault}" for fault in _job_faults(job, story, sorts[path], right[path])
        )
    faults.extend(f"no job for {path}" for path in sorts.keys() - seen)
    if len(ledger.stories) != len(jobs):
        faults.append(f"the log tells of {len(ledger.stories)} jobs, the list has {len(jobs)}")
    return faults


def _job_faults(job: Mapping[str, msgspec.Raw], story: Story, sort: Sort, right: Any) -> list[str]:
    faults = []
    completions = len(story.result_sizes)
    if completions != 1:
        faults.append(f"completed {completions} times")
    elif story.result_sizes[0] != len(bytes(job["result"])):
        faults.append("the result is not of the size the log recorded")
    state = msgspec.json.decode(job["state"])
    if state != "succeeded":
        faults.append(f"is {state}")
    elif msgspec.json.decode(job["result"]) != right:
        faults.append("has a wrong result")
    counts = story.counts
    if sort is Sort.FLAKY and counts["attempt_failed"] + counts["lease_expired"] < FLAKY_FAILURES:
        faults.append(f"was to fail {FLAKY_FAILURES} times and did not")
    if sort is Sort.DOOMED and not (counts["job_died"] and counts["job_requeued"]):
        faults.append("was to die and be requeued, and was not")
    return faults
