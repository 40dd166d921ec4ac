"""`eventjobs stats`: the counters the coordinator keeps."""

from __future__ import annotations

from collections.abc import Iterator

import click
import orjson

from eventjobs.cli import documents, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.remote import Problem, Remote, job_path, with_remote
from eventjobs.cli.why import reason
from eventjobs.domain.job import State

WAITING = (State.QUEUED, State.FAILED)
SHOWN_MAX = 10
"""Kinds of which it is told what they wait for."""


@click.command(short_help="Show how many jobs there are, and what waits for what: begin here.")
@options.json_option
@with_remote
def stats(as_json: bool, remote: Remote) -> None:
    """Show how many jobs there are, by state, queue and kind, how long they wait and run, and what those wait for that
    are not running.

    For each kind that has queued or failed jobs, the one that came in last is asked why it is not running, as
    `eventjobs why ID` tells of any. `eventjobs dead` lists those that were given up. --json has the counters alone.
    """
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
    if waiting := list(_waiting(remote, found["kinds"])):
        click.echo()
        print_columns(("waiting", "#jobs", "what the newest of them waits for"), waiting)
    if dead := found["jobs"].get(State.DEAD, 0):
        click.echo("\n" + _given_up(dead))
    click.echo()
    wait, run = _average(found["average_wait_seconds"]), _average(found["average_run_seconds"])
    click.echo(f"average wait {wait}, average run {run}, expired leases {found['lease_expirations']:,}")
    click.echo(f"log: {found['head']['size']:,} events, root {found['head']['root']}")


def _print_counts(word: str, groups: dict[str, dict[str, int]]) -> None:
    rows = ([name, *(f"{counts.get(state, 0):,}" for state in State)] for name, counts in sorted(groups.items()))
    print_columns([word, *(f"#{state}" for state in State)], rows)


def _given_up(dead: int) -> str:
    return f"{dead:,} dead: see `eventjobs dead`; again by `eventjobs requeue --all`"


def _average(seconds: float | None) -> str:
    return "unknown yet" if seconds is None else output.duration(seconds)


def _waiting(remote: Remote, kinds: dict[str, dict[str, int]]) -> Iterator[tuple[str, str, str]]:
    """Kind, number and reason of the jobs that could run and do not, those of the most jobs first."""
    counts = sorted(
        ((counts[state], kind, state) for kind, counts in kinds.items() for state in WAITING if counts.get(state)),
        key=lambda each: (-each[0], *each[1:]),
    )
    for number, kind, state in counts[:SHOWN_MAX]:
        for job in documents.loads(remote.get("/jobs", kind=kind, state=state, limit=1))["jobs"]:
            try:
                found = documents.loads(remote.get(job_path(job["id"], "why")))
            except Problem as problem:
                if problem.code != "job_not_found":  # else it has ended meanwhile, and is gone already
                    raise
                continue
            if found["state"] == state:
                yield f"{kind} ({state})", f"{number:,}", reason(found)
    if len(counts) > SHOWN_MAX:
        yield f"and {len(counts) - SHOWN_MAX} more", "", ""
