"""`eventjobs stats`: the counters the coordinator keeps."""

from __future__ import annotations

import click
import orjson

from eventjobs.cli import options, output
from eventjobs.cli.columns import print_columns
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
    _print_counts("", {"all jobs": found["jobs"]})
    for word, groups in (("queue", found["queues"]), ("kind", found["kinds"])):
        if groups:
            click.echo()
            _print_counts(word, groups)
    click.echo()
    wait, run = _average(found["average_wait_seconds"]), _average(found["average_run_seconds"])
    click.echo(f"average wait {wait}, average run {run}, expired leases {found['lease_expirations']:,}")
    click.echo(f"log: {found['head']['size']:,} events, root {found['head']['root']}")


def _print_counts(word: str, groups: dict[str, dict[str, int]]) -> None:
    rows = ([name, *(f"{counts.get(state, 0):,}" for state in State)] for name, counts in sorted(groups.items()))
    print_columns([word, *(f"#{state}" for state in State)], rows)


def _average(seconds: float | None) -> str:
    return "unknown yet" if seconds is None else output.duration(seconds)
