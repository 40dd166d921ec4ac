"""The command that runs many seeds: what it prints, and how it ends."""

from __future__ import annotations

import re

import pytest

from eventjobs.coordinator.rescuer import Rescuer
from eventjobs.testing.simulation import many, run_seed
from eventjobs.testing.simulation.__main__ import main


def test_many_seeds(capsys):
    """Progress and a summary are printed; nothing is broken."""
    assert main(["--seeds", "12", "--first", "3", "--processes", "2", "--seen"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^12 of 12 seeds, 0 broken, [\d,]+ a minute$", said, re.MULTILINE)
    assert re.search(r"^ +\d+ event: job_completed$", said, re.MULTILINE)
    assert "hours were simulated" in said


def test_one_seed_is_told_in_full(capsys):
    """The plan, every line and the digest: what a broken seed is looked at with."""
    assert main(["--first", "1"]) == 0
    said = capsys.readouterr().out
    run = run_seed(1, keep_all=True)
    assert said == "\n".join([str(run.plan), *run.lines, f"digest {run.digest}: every promise was kept", ""])


def test_a_broken_seed_is_told_with_the_way_back_to_it(capsys, monkeypatch):
    """Its number, its promise, its last lines and the command for it are printed, and the command fails."""
    monkeypatch.setattr(Rescuer, "_start_sweep", lambda self: None)
    assert main(["--seeds", "5", "--processes", "1", "--lines", "7"]) == 1
    said = capsys.readouterr().out
    seed = re.search(r"^seed (\d+) is broken: the lease of job \w+ ran out and nobody ends it$", said, re.MULTILINE)[1]
    told = said[said.index(f"seed {seed} is broken") :].split("\n")
    assert all(line.startswith("    ") for line in told[1:9])
    assert told[8] == f"    see it again: python -m eventjobs.testing.simulation --first {seed}"
    assert re.search(rf"^BROKEN: .*\b{seed}\b", said, re.MULTILINE)
    assert main(["--first", seed]) == 1
    assert "BROKEN: the lease of job" in capsys.readouterr().out


def test_a_failure_of_the_simulation_itself_is_told(monkeypatch):
    """A run that ends with an exception counts as broken, and does not keep the others from being run."""

    def fails(seed):
        if seed == 1:
            raise RuntimeError("a fault of the simulation")
        return run_seed(seed)

    monkeypatch.setattr(many, "run_seed", fails)
    tally = many.run_range(range(3))
    assert (tally.seeds, [broken.seed for broken in tally.broken]) == (3, [1])
    assert "RuntimeError: a fault of the simulation" in tally.broken[0].told(5)


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (10, [10]), (25, [10, 10, 5])])
def test_every_seed_is_run_once(count, sizes):
    """Chunks share the seeds between processes without a gap."""
    chunks = many._chunks(7, count)
    assert [len(chunk) for chunk in chunks] == sizes
    assert [seed for chunk in chunks for seed in chunk] == list(range(7, 7 + count))
