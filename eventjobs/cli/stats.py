"""`eventjobs stats`: the counters the coordinator keeps."""

from __future__ import annotations

from typing import Any

import click
import orjson
from rich.table import Table

from eventjobs.cli import options, output
from eventjobs.cli.remote import Remote, with_remote
from eventjobs.domain.job import State


@click.command(short_help="Show how many jobs there are, by state, queue and kind.")
@options.json_option
@with_remote
def stats(as_json: bool, remote: Remote) -> None:
    """Show how many jobs there are, by state, queue and kind, and how long they wait and run."""
    answer = remote.get("/stats")
    if as_json:
        output.print_json(answer)
        return
    found = orjson.loads(answer)
    console = output.console()
    console.print(_counts("", {"all jobs": found["jobs"]}))
    for word, groups in (("queue", found["queues"]), ("kind", found["kinds"])):
        if groups:
            console.print()
            console.print(_counts(word, groups))
    console.print()
    wait, run = _average(found["average_wait_seconds"]), _average(found["average_run_seconds"])
    console.print(f"average wait {wait}, average run {run}, expired leases {found['lease_expirations']:,}")
    console.print(f"log: {found['head']['size']:,} events, root {found['head']['root']}")


def _counts(word: str, groups: dict[str, dict[str, int]]) -> Table:
    table = output.table(word, *(f"#{state}" for state in State))
    for name, counts in sorted(groups.items()):
        table.add_row(output.plain(name), *(f"{counts.get(state, 0):,}" for state in State))
    return table


def _average(seconds: float | None) -> Any:
    return "unknown yet" if seconds is None else output.duration(seconds)
