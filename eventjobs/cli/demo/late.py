"""The demo speaking up for workers that lost a job: it completes the job under their token while another runs it."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from eventjobs.cli.demo.ledger import Ledger, Taken
from eventjobs.cli.remote import Problem, job_path


class Posts(Protocol):
    """Where completions are sent; raises Problem when one is refused."""

    def post(self, path: str, body: dict[str, object]) -> object: ...


def complete_late(remote: Posts, late: Taken) -> str | None:
    """Complete a job under a token that is over, which must be refused; what is wrong with the answer, if anything."""
    try:
        remote.post(job_path(late.job_id, "complete"), {"token": late.token, "result": "late"})
    except Problem as problem:
        if problem.code != "stale_token":
            return f"job {late.job_id}: a late completion was refused as {problem.code}, not as stale_token"
        return None
    return f"job {late.job_id}: a completion under the old token {late.token} was accepted"


class Latecomer:
    """Sends the completion of each lease that ran out, once, at a time when the job runs under a newer token.

    Then nothing but the token can tell it from the one that the job's worker will send. `sent` counts them by lease,
    `overtaken` those whose job was certainly still running when it was refused.
    """

    def __init__(self, remote: Posts) -> None:
        self._remote = remote
        self._tokens: dict[Taken, int] = {}
        self.sent: Counter[Taken] = Counter()
        self.overtaken = 0
        self._faults: list[str] = []

    def look(self, ledger: Ledger) -> bool:
        """Send what can be sent by what the ledger knows; whether anything was. Then `judge` what came after it."""
        for late in ledger.expired:
            story = ledger.stories[late.job_id]
            if late not in self.sent and story.holder is not None and story.token > late.token:
                self.sent[late] += 1
                self._tokens[late] = story.token
                if fault := complete_late(self._remote, late):
                    self._faults.append(fault)
        return bool(self._tokens)

    def judge(self, ledger: Ledger) -> None:
        """Count those sent by `look` whose job, by a ledger that was read on since, still ran under the same token."""
        for late, token in self._tokens.items():
            story = ledger.stories[late.job_id]
            self.overtaken += story.holder is not None and story.token == token
        self._tokens.clear()

    def faults(self) -> list[str]:
        """What was wrong, in words; that nothing could be sent in time as well."""
        if self._faults or self.overtaken:
            return self._faults
        return ["no late completion met its job while another worker ran it; try again on a quieter machine"]
