"""What happened in the demo, for people and for scripts."""

from __future__ import annotations

import attrs
from attrs import define
from rich.console import Console
from rich.table import Table

from eventjobs.cli.output import plain

FAULTS_SHOWN = 20


@define(kw_only=True)
class Outcome:
    """The numbers, and the faults: empty when all is well.

    All is counted in the log, but for the refusals: they leave no trace there, and are counted in the lines that the
    coordinator's process wrote. `expired_leases` is by worker.
    """

    jobs: int
    bytes: int
    compressed_bytes: int
    events: dict[str, int]
    expired_leases: dict[str, int]
    late_completions_refused: int
    late_renewals_refused: int
    log_events: int
    log_root: str
    seconds: float
    faults: list[str]

    def document(self) -> dict[str, object]:
        """For --json."""
        return attrs.asdict(self)


def _by_worker(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} of {worker}" for worker, number in sorted(numbers.items()))


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The table, and what is wrong."""
    count = outcome.events.get
    rows = (
        ("jobs, one for each file", outcome.jobs, f"{outcome.bytes:,} bytes, compressed {outcome.compressed_bytes:,}"),
        ("leases", count("job_leased", 0), f"renewed {count('lease_renewed', 0):,} times"),
        ("leases that ran out", sum(outcome.expired_leases.values()), _by_worker(outcome.expired_leases)),
        ("late completions refused", outcome.late_completions_refused, "by the token; none is in the log"),
        ("late renewals refused", outcome.late_renewals_refused, "the same"),
        ("retries", count("attempt_failed", 0), "failed attempts that were tried again"),
        ("deaths", count("job_died", 0), "all attempts failed"),
        ("requeues", count("job_requeued", 0), "dead jobs that got fresh attempts"),
        ("completions", count("job_completed", 0), "exactly one for each job" if not outcome.faults else ""),
        ("events in the log", outcome.log_events, f"root {outcome.log_root}"),
    )
    table = Table(title=f"What happened in {outcome.seconds:.1f} s", title_justify="left")
    table.add_column("")
    table.add_column("count", justify="right")
    table.add_column("")
    for name, number, words in rows:
        table.add_row(name, f"{number:,}", words)
    console.print(table)
    if not outcome.faults:
        console.print(
            f"[green]The log proves it: {outcome.jobs:,} jobs, each finished exactly once, with the right digest.[/]"
        )
        return
    console.print(f"[red]{len(outcome.faults)} things are off:[/]")
    for fault in outcome.faults[:FAULTS_SHOWN]:
        console.print(f"  {plain(fault)}", soft_wrap=True)
    if len(outcome.faults) > FAULTS_SHOWN:
        console.print(f"  … and {len(outcome.faults) - FAULTS_SHOWN} more")
