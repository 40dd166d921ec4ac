"""The demo's late completions: sent while another worker runs the job, once each, and an answer but one is a fault."""

from __future__ import annotations

from datetime import UTC, datetime

from eventjobs.cli.demo.late import Latecomer, complete_late
from eventjobs.cli.demo.ledger import Ledger, Story, Taken
from eventjobs.cli.remote import Problem
from eventjobs.client import answers, errors
from eventjobs.testing import builders as b

LATE = Taken(b.an_id(1), 1, "w")


class Answers:
    """Refuses what is posted with a code, or takes it."""

    def __init__(self, code: str | None) -> None:
        self.code, self.posted = code, []

    def post(self, path: str, body: dict[str, object]) -> None:
        self.posted.append((path, body["token"]))
        if self.code is not None:
            raise Problem(errors.refusal(answers.Problem(code=self.code, status=409)))


def ledger_with(token: int, holder: str | None) -> Ledger:
    """One job whose first lease ran out."""
    story = Story("k", token=token, holder=holder, leased_at=datetime.now(UTC))
    return Ledger(stories={LATE.job_id: story}, expired=[LATE])


def test_it_waits_for_another_worker_and_speaks_once() -> None:
    """Nothing is sent for a job that waits; under a newer token, one completion with the old one."""
    remote = Answers("stale_token")
    latecomer = Latecomer(remote)
    for ledger in (ledger_with(1, None), ledger_with(2, None)):
        assert not latecomer.look(ledger)
    assert latecomer.look(ledger_with(2, "v"))
    latecomer.judge(ledger_with(2, "v"))
    assert not latecomer.look(ledger_with(2, "v"))
    assert remote.posted == [(f"/jobs/{LATE.job_id}/complete", 1)]
    assert (latecomer.overtaken, latecomer.sent[LATE], latecomer.faults()) == (1, 1, [])


def test_one_whose_job_went_on_meanwhile_does_not_count() -> None:
    """When the job had ended, or was leased anew, another rule may have refused it."""
    for token, holder in ((2, None), (3, "u")):
        latecomer = Latecomer(Answers("stale_token"))
        latecomer.look(ledger_with(2, "v"))
        latecomer.judge(ledger_with(token, holder))
        assert latecomer.overtaken == 0
        assert latecomer.faults() == [
            "no late completion met its job while another worker ran it; try again on a quieter machine"
        ]


def test_any_other_answer_is_a_fault() -> None:
    """Taken, or refused for another reason: both are told."""
    assert complete_late(Answers("stale_token"), LATE) is None
    for code, words in ((None, "old token 1 was accepted"), ("lease_expired", "refused as lease_expired")):
        latecomer = Latecomer(Answers(code))
        latecomer.look(ledger_with(2, "v"))
        latecomer.judge(ledger_with(2, "v"))
        (fault,) = latecomer.faults()
        assert words in fault
