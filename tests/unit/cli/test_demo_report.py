"""The end of the demo: what is told, and the exit code."""

from __future__ import annotations

import attrs
import orjson
import pytest

from eventjobs.cli.demo.command import finish
from eventjobs.cli.demo.report import Outcome
from eventjobs.cli.exits import Refused


def outcome(*faults: str) -> Outcome:
    return Outcome(
        jobs=3,
        bytes=1_000,
        compressed_bytes=500,
        events={"job_enqueued": 3, "job_leased": 5, "job_completed": 3},
        expired_leases={"worker-1": 1, "worker-2": 1},
        late_completions_refused=12,
        late_completions_overtaken=11,
        late_renewals_refused=2,
        log_events=11,
        log_root="root",
        seconds=1.5,
        faults=list(faults),
    )


def test_when_all_is_well_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a fault the table and the verdict are printed, and nothing is raised."""
    finish(outcome(), as_json=False)
    shown = capsys.readouterr().out
    assert "The log proves it: 3 jobs" in shown
    assert "worker-1: 1, worker-2: 1" in shown


def test_it_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """With the numbers of a whole run, no line passes 80 columns: the table is not folded there."""
    whole = attrs.evolve(
        outcome(),
        jobs=12_450,
        bytes=902_273_533,
        compressed_bytes=230_378_039,
        expired_leases={"worker-1": 12, "worker-2": 12, "worker-3": 12},
        log_events=108_194,
        log_root="9slmF/09hPSAHBuWGmTsa7O9fS7M56/nxMYZKT/X1B4=",
    )
    finish(whole, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_a_fault_is_told_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """With a fault there is no good verdict: each fault is named, and the command ends with REFUSED."""
    with pytest.raises(Refused, match="2 faults"):
        finish(outcome("job [a]: completed 2 times", "position 3 follows position 1"), as_json=False)
    shown = capsys.readouterr().out
    assert "job [a]: completed 2 times" in shown and "position 3 follows position 1" in shown
    assert "The log proves it" not in shown and "exactly one for each job" not in shown


def test_scripts_are_told_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """--json has every number and the faults, and refuses as well."""
    with pytest.raises(Refused):
        finish(outcome("off"), as_json=True)
    told = orjson.loads(capsys.readouterr().out)
    assert (told["jobs"], told["events"]["job_leased"], told["faults"]) == (3, 5, ["off"])
