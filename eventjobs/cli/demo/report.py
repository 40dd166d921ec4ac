"""What happened in the demo, for people and for scripts."""

from __future__ import annotations

import attrs
from attrs import define

from eventjobs.cli import output
from eventjobs.cli.columns import print_columns

FAULTS_SHOWN = 20


@define(kw_only=True)
class Outcome:
    """The numbers, and the faults: empty when all is well.

    All is counted in the log, but for the refusals: they leave no trace there, and are counted in the lines that the
    coordinator's process wrote. `late_completions_overtaken` of them were sent by the demo while another worker ran the
    job. `expired_leases` is by worker.
    """

    jobs: int
    bytes: int
    compressed_bytes: int
    events: dict[str, int]
    expired_leases: dict[str, int]
    late_completions_refused: int
    late_completions_overtaken: int
    late_renewals_refused: int
    log_events: int
    log_root: str
    seconds: float
    faults: list[str]

    def document(self) -> dict[str, object]:
        """For --json."""
        return attrs.asdict(self)


def _by_worker(numbers: dict[str, int]) -> str:
    return ", ".join(f"{worker}: {number}" for worker, number in sorted(numbers.items()))


def print_outcome(outcome: Outcome) -> None:
    """The table, and what is wrong."""
    console = output.console()
    count = outcome.events.get
    rows = (
        ("jobs, one for each file", outcome.jobs, f"{outcome.bytes:,} bytes, compressed {outcome.compressed_bytes:,}"),
        ("leases", count("job_leased", 0), f"renewed {count('lease_renewed', 0):,} times"),
        ("leases that ran out", sum(outcome.expired_leases.values()), _by_worker(outcome.expired_leases)),
        (
            "late completions refused",
            outcome.late_completions_refused,
            f"by the token, {outcome.late_completions_overtaken} while another ran the job",
        ),
        ("late renewals refused", outcome.late_renewals_refused, "the same"),
        ("retries", count("attempt_failed", 0), "failed attempts that were tried again"),
        ("deaths", count("job_died", 0), "all attempts failed"),
        ("requeues", count("job_requeued", 0), "dead jobs that got fresh attempts"),
        ("completions", count("job_completed", 0), "exactly one for each job" if not outcome.faults else ""),
        ("events in the log", outcome.log_events, ""),
    )
    console.print(f"\nWhat happened in {outcome.seconds:.1f} s\n", style="bold")
    print_columns(("", "#", ""), [(name, f"{number:,}", words) for name, number, words in rows])
    console.print(f"root of the log: {outcome.log_root}\n")
    if not outcome.faults:
        verdict = f"The log proves it: {outcome.jobs:,} jobs, each finished exactly once, each digest right."
        console.print(verdict, style="green", soft_wrap=True)
        return
    console.print(f"{len(outcome.faults)} things are off:", style="red")
    for fault in outcome.faults[:FAULTS_SHOWN]:
        console.print(output.text(f"  {fault}"), soft_wrap=True)
    if len(outcome.faults) > FAULTS_SHOWN:
        console.print(f"  … and {len(outcome.faults) - FAULTS_SHOWN} more")
