"""The demo's audit: it passes what is right, and cannot be talked into anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from eventjobs.cli.demo.audit import audit
from eventjobs.cli.demo.ledger import Ledger
from eventjobs.cli.demo.plan import Sort, Task

RESULT = {"sha256": "ab", "bytes": 3, "compressed_bytes": 5}
RESULT_TEXT = orjson.dumps(RESULT).decode()
PATHS = ("/lib/a.py", "/lib/b.py", "/lib/c.py")


class Evidence:
    """Three jobs that went well: one at once, one after two failures, one after a death. Tests doctor it."""

    def __init__(self) -> None:
        self.tasks = [Task(PATHS[0], Sort.PLAIN), Task(PATHS[1], Sort.FLAKY), Task(PATHS[2], Sort.DOOMED)]
        self.events: list[tuple[str, str, dict[str, Any]]] = [(job, "job_enqueued", {"kind": "k"}) for job in "abc"]
        self.run("a", 1, "job_completed")
        for token, end in enumerate(("attempt_failed", "attempt_failed", "job_completed"), start=1):
            self.run("b", token, end)
        self.run("c", 1, "job_died")
        self.events.append(("c", "job_requeued", {}))
        self.run("c", 2, "job_completed")
        self.results = dict.fromkeys("abc", RESULT_TEXT)
        self.states = dict.fromkeys("abc", "succeeded")
        self.extra_head = 0

    def run(self, job: str, token: int, end: str) -> None:
        self.events.append((job, "job_leased", {"token": token, "worker": "w"}))
        more = {"result": {"size": len(RESULT_TEXT)}} if end == "job_completed" else {}
        self.events.append((job, end, {"token": token, **more}))

    def listed(self, job: str, path: str) -> dict[str, msgspec.Raw]:
        """The job as a list has it."""
        return {
            "id": msgspec.Raw(orjson.dumps(job)),
            "payload": msgspec.Raw(orjson.dumps({"path": path})),
            "state": msgspec.Raw(orjson.dumps(self.states[job])),
            "result": msgspec.Raw(self.results[job]),
        }

    def faults(self) -> list[str]:
        ledger, versions = Ledger(), dict.fromkeys("abcx", 0)
        for position, (job, type_, data) in enumerate(self.events, start=1):
            versions[job] += 1
            ledger.take(
                {
                    "position": position,
                    "job_id": job,
                    "version": versions[job],
                    "type": type_,
                    "time": "2030-01-01T12:00:00.000000Z",
                    "data": data,
                }
            )
        jobs = [self.listed(job, path) for job, path in zip(self.results, PATHS, strict=True)]
        right = dict.fromkeys(PATHS, RESULT)
        return audit(ledger, ledger.position + self.extra_head, self.tasks, jobs, right)


def test_sound_evidence_has_no_fault() -> None:
    """Nothing is found where nothing is off."""
    assert Evidence().faults() == []


def missing_completion(evidence: Evidence) -> None:
    del evidence.events[-1]
    evidence.states["c"], evidence.results["c"] = "running", "null"


def completion_left_out_of_the_log(evidence: Evidence) -> None:
    del evidence.events[-1]


def two_completions(evidence: Evidence) -> None:
    evidence.run("a", 2, "job_completed")


def wrong_digest(evidence: Evidence) -> None:
    evidence.results["a"] = RESULT_TEXT.replace("ab", "ac")


def text_of_another_size(evidence: Evidence) -> None:
    evidence.results["a"] = RESULT_TEXT.replace(",", ", ")


def shorter_log(evidence: Evidence) -> None:
    evidence.extra_head = 1


def late_completion_accepted(evidence: Evidence) -> None:
    evidence.events.insert(-1, ("c", "job_completed", {"token": 1, "result": {"size": len(RESULT_TEXT)}}))


def job_that_is_not_listed(evidence: Evidence) -> None:
    evidence.events.append(("x", "job_enqueued", {"kind": "k"}))


def job_without_a_file(evidence: Evidence) -> None:
    evidence.tasks[0] = Task("/lib/z.py", Sort.PLAIN)


def flaky_job_that_did_not_fail(evidence: Evidence) -> None:
    evidence.tasks[0] = Task(PATHS[0], Sort.FLAKY)


def doomed_job_that_did_not_die(evidence: Evidence) -> None:
    evidence.tasks[0] = Task(PATHS[0], Sort.DOOMED)


@pytest.mark.parametrize(
    ("doctor", "fault"),
    [
        (missing_completion, "completed 0 times"),
        (completion_left_out_of_the_log, "completed 0 times"),
        (two_completions, "completed 2 times"),
        (wrong_digest, "has a wrong result"),
        (text_of_another_size, "not of the size the log recorded"),
        (shorter_log, "the head says"),
        (late_completion_accepted, "not the live one"),
        (job_that_is_not_listed, "the log tells of 4 jobs, the list has 3"),
        (job_without_a_file, "no job for /lib/z.py"),
        (flaky_job_that_did_not_fail, "was to fail 2 times"),
        (doomed_job_that_did_not_die, "was to die and be requeued"),
    ],
)
def test_doctored_evidence_is_found_out(doctor: Callable[[Evidence], None], fault: str) -> None:
    """Each kind of fault is named."""
    evidence = Evidence()
    doctor(evidence)
    assert any(fault in found for found in evidence.faults()), evidence.faults()
