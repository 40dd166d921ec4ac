"""How many databases a load takes: python -m eventjobs.testing.fleet [--help]."""

from __future__ import annotations

import argparse
import sys

from eventjobs.testing.fleet.line import Found, Lock, simulate

RECORDS_A_JOB = 3
"""Enqueued, leased, completed."""
SECONDS_A_DAY = 86_400


def main() -> None:
    """Print a line for each number of databases."""
    wanted = argparse.ArgumentParser(description="How many databases a load takes.")
    wanted.add_argument("--fixed", type=float, default=2.0, help="milliseconds of a turn at the lock, flush included")
    wanted.add_argument("--each", type=float, default=0.07, help="milliseconds more for each record of a turn")
    wanted.add_argument("--jobs", type=float, default=1e9, help="jobs a day")
    wanted.add_argument("--peak", type=float, default=2.5, help="how much the busiest hour has of an average one")
    wanted.add_argument("--coordinators", type=int, default=1_000, help="on all databases together")
    wanted.add_argument("--batch", type=int, default=10, help="records of a request")
    wanted.add_argument("--databases", type=int, nargs="+", default=[8, 12, 16, 24, 32])
    wanted.add_argument("--seed", type=int, default=1)
    given = wanted.parse_args()
    lock = Lock(given.fixed / 1_000, given.each / 1_000)
    average = given.jobs / SECONDS_A_DAY
    peak = average * given.peak
    _say(f"{average:,.0f} jobs a second on average, {peak:,.0f} in the busiest hour, {RECORDS_A_JOB} records a job;")
    _say(f"turns of {given.fixed:g} ms + {given.each:g} ms a record, {given.batch} records a request\n")
    _say("databases  coordinators each  records/s each  lock held  requests a commit      p50      p99")
    for databases in given.databases:
        coordinators = -(-given.coordinators // databases)
        records = peak * RECORDS_A_JOB / databases
        found = simulate(lock, coordinators, records / given.batch, given.batch, seed=given.seed)
        line = f"{databases:9}  {coordinators:17}  {records:14,.0f}  {found.held:9.0%}  {found.group:17.1f}"
        _say(f"{line}  {_times(found)}")


def _times(found: Found) -> str:
    if not found.kept_up:
        return "does not keep up"
    return f"{found.median * 1_000:5,.0f} ms  {found.late * 1_000:5,.0f} ms"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
