"""Run seeds from the command line. Ends with 1 when a promise was broken."""

from __future__ import annotations

import argparse
import os
import sys

from eventjobs.testing.simulation.many import Tally, run_many
from eventjobs.testing.simulation.story import run_seed

LINES_TOLD = 60
TOLD_AT_LENGTH = 5
"""Broken runs whose end is printed; of the others only what they broke."""
TELL_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m eventjobs.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run; one is told in full")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run side by side")
    parser.add_argument("--lines", type=int, default=LINES_TOLD, help="how much of a broken run is printed")
    parser.add_argument("--seen", action="store_true", help="say how often what happened")
    asked = parser.parse_args(arguments)
    if asked.seeds == 1:
        return _one(asked.first)
    tally = run_many(asked.first, asked.seeds, asked.processes, _Progress(asked.seeds, asked.lines))
    if asked.seen:
        _say("\n".join(f"{count:9} {sort}" for sort, count in sorted(tally.seen.items())))
    _say(f"{tally.jobs:,} jobs, {tally.records:,} records and {tally.seconds / 3600:,.1f} hours were simulated")
    if tally.broken:
        _say("BROKEN: " + " ".join(str(broken.seed) for broken in tally.broken))
    return 1 if tally.broken else 0


def _one(seed: int) -> int:
    run = run_seed(seed, keep_all=True)
    _say("\n".join([str(run.plan), *run.lines]))
    _say(f"digest {run.digest}: {'every promise was kept' if run.broken is None else f'BROKEN: {run.broken}'}")
    return 0 if run.broken is None else 1


class _Progress:
    """Says how far it is, every few seconds and at the end; and what is broken at once."""

    def __init__(self, seeds: int, lines: int) -> None:
        self._seeds, self._lines = seeds, lines
        self._told_at, self._told = 0.0, 0

    def __call__(self, tally: Tally, seconds: float) -> None:
        for broken in tally.broken[self._told :]:
            _say(broken.told(self._lines if self._told < TOLD_AT_LENGTH else 0))
            self._told += 1
        if seconds - self._told_at >= TELL_SECONDS or tally.seeds == self._seeds:
            self._told_at = seconds
            pace = 60 * tally.seeds / seconds
            _say(f"{tally.seeds:,} of {self._seeds:,} seeds, {len(tally.broken)} broken, {pace:,.0f} a minute")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
