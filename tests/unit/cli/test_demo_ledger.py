"""The demo's reading of the log: a sound log has no fault, and each way to doctor one is noticed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventjobs.cli.demo.ledger import Ledger, Taken

NOON = "2030-01-01T12:00:00.000000Z"


class Log:
    """Writes events as GET /events gives them, with the right positions and versions."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._versions: dict[str, int] = {}

    def add(self, job: str, type_: str, **data: Any) -> Log:
        self._versions[job] = self._versions.get(job, 0) + 1
        self.events.append(
            {
                "position": len(self.events) + 1,
                "job_id": job,
                "version": self._versions[job],
                "type": type_,
                "time": NOON,
                "data": data,
            }
        )
        return self

    def leased(self, job: str, token: int, worker: str = "w") -> Log:
        return self.add(job, "job_leased", token=token, worker=worker)

    def completed(self, job: str, token: int, size: int = 2) -> Log:
        return self.add(job, "job_completed", token=token, result={"size": size, "sha256": "0" * 64})


def folded(log: Log) -> Ledger:
    ledger = Ledger()
    for event in log.events:
        ledger.take(event)
    return ledger


def test_a_sound_log_has_no_fault() -> None:
    """Leases, renewals, failures, expiries, deaths, requeues and releases in their order are no fault."""
    log = Log().add("a", "job_enqueued", kind="k").leased("a", 1).add("a", "lease_renewed", token=1)
    log.add("a", "attempt_failed", token=1).leased("a", 2, "v").add("a", "lease_expired", token=2)
    log.leased("a", 3).add("a", "lease_released", token=3).leased("a", 4, "u").add(
        "a", "job_died", token=4, cause="lease_expired"
    )
    log.add("a", "job_requeued").leased("a", 5).completed("a", 5, size=7)
    ledger = folded(log)
    assert ledger.faults == []
    assert ledger.position == 13
    assert ledger.expired == [Taken("a", 2, "v"), Taken("a", 4, "u")]
    assert ledger.stories["a"].result_sizes == [7]
    assert ledger.counts["job_leased"] == 5
    assert (ledger.succeeded(), ledger.dead()) == (1, 0)


def test_who_holds_what_is_known() -> None:
    """Only jobs of the kind, held by the worker, leased between the times."""
    log = Log()
    for job, kind, worker in (("a", "k", "w"), ("b", "k", "v"), ("c", "other", "w"), ("d", "k", "w")):
        log.add(job, "job_enqueued", kind=kind).leased(job, 1, worker)
    ledger = folded(log.completed("d", 1))
    noon, second = datetime(2030, 1, 1, 12, tzinfo=UTC), timedelta(seconds=1)
    assert ledger.held_by("w", "k", noon, noon) == {Taken("a", 1, "w")}
    assert ledger.held_by("w", "k", noon + second, noon + 2 * second) == set()
    assert ledger.held_by("w", "k", noon - 2 * second, noon - second) == set()


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        (Log().leased("a", 1), "never enqueued"),
        (Log().add("a", "job_enqueued").leased("a", 2), "token 2 follows token 0"),
        (Log().add("a", "job_enqueued").leased("a", 1).leased("a", 2), "leased while w held it"),
        (Log().add("a", "job_enqueued").completed("a", 0), "token 0, which is not the live one"),
        (
            Log()
            .add("a", "job_enqueued")
            .leased("a", 1)
            .add("a", "lease_expired", token=1)
            .leased("a", 2)
            .completed("a", 1),
            "token 1, which is not the live one",
        ),
        (
            Log().add("a", "job_enqueued").leased("a", 1).add("a", "lease_expired", token=1).completed("a", 1),
            "token 1, which is not the live one",
        ),
        (
            Log().add("a", "job_enqueued").leased("a", 1).completed("a", 1).completed("a", 1),
            "after the job had succeeded",
        ),
        (
            Log().add("a", "job_enqueued").leased("a", 1).completed("a", 1).add("a", "job_requeued"),
            "after the job had succeeded",
        ),
    ],
)
def test_what_must_not_be_in_a_log_is_named(log: Log, fault: str) -> None:
    """Each break of the rules is a fault that says where it is."""
    faults = folded(log).faults
    assert any(fault in found for found in faults), faults
    assert all("position" in found for found in faults)


@pytest.mark.parametrize("field", ["position", "version"])
def test_a_gap_is_named(field: str) -> None:
    """A missing position or version is noticed at the event after it."""
    log = Log().add("a", "job_enqueued").leased("a", 1).completed("a", 1)
    for event in log.events[1:]:
        event[field] += 1
    (fault,) = folded(log).faults
    assert f"{field} 3 follows {field} 1" in fault
