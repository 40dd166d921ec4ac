"""What `eventjobs stats` says of jobs that could run and do not: for each kind, what its newest waits for."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson
import pytest

from eventjobs.cli import stats
from eventjobs.cli.remote import Problem
from eventjobs.client.answers import Problem as Document
from eventjobs.client.errors import refusal

NOW = "2026-11-30T00:00:00.000000Z"


def id_of(name: str) -> str:
    """The id of a job that a test knows by a name."""
    return str(uuid5(NAMESPACE_OID, name))


class Coordinator:
    """Answers for jobs that are told as {name: state}; of one without a state it knows nothing any more."""

    def __init__(self, jobs: dict[str, str | None]) -> None:
        self._jobs = {id_of(name): state for name, state in jobs.items()}

    def get(self, path: str, **query: Any) -> bytes:
        if path == "/jobs":
            return orjson.dumps({"jobs": [{"id": id_of(f"{query['kind']}-{query['state']}")}], "next_cursor": None})
        job_id = path.split("/")[2]
        state = self._jobs[job_id]
        if state is None:
            raise Problem(refusal(Document(code="job_not_found", status=404)))
        later = "2026-11-30T01:00:00.000000Z"
        return orjson.dumps({"id": job_id, "state": state, "reason": "scheduled", "time": NOW, "run_at": later})


def test_each_kind_that_waits_is_told_once_by_state_the_most_jobs_first() -> None:
    """Queued and failed ones apart, with their numbers; kinds of which nothing waits are left out."""
    kinds = {"a": {"queued": 1, "failed": 2_000}, "b": {"queued": 30, "running": 9}, "c": {"succeeded": 5}}
    remote = Coordinator({"a-queued": "queued", "a-failed": "failed", "b-queued": "queued"})
    rows = list(stats._waiting(remote, kinds))
    assert [row[:2] for row in rows] == [("a (failed)", "2,000"), ("b (queued)", "30"), ("a (queued)", "1")]
    assert all("in 1 h 00 m" in reason for _, _, reason in rows)


@pytest.mark.parametrize("state", ["running", None])
def test_a_job_that_went_on_meanwhile_is_not_told(state: str | None) -> None:
    """It does not wait any more, or is gone already."""
    assert list(stats._waiting(Coordinator({"a-queued": state}), {"a": {"queued": 1}})) == []


def test_what_to_do_about_dead_jobs_is_said_in_a_line_of_a_narrow_terminal() -> None:
    """With calls that are taken as they stand: a requeue names its jobs, or all."""
    said = stats._given_up(12_000)
    assert said.startswith("12,000 dead") and "`eventjobs requeue --all`" in said and len(said) <= 70


def test_beyond_a_number_of_kinds_only_their_number_is_told() -> None:
    """A screen is enough to see what is wrong."""
    kinds = {f"k{number}": {"queued": 1} for number in range(stats.SHOWN_MAX + 3)}
    rows = list(stats._waiting(Coordinator({f"{kind}-queued": "queued" for kind in kinds}), kinds))
    assert len(rows) == stats.SHOWN_MAX + 1 and rows[-1] == ("and 3 more", "", "")
