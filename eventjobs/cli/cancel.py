"""`eventjobs cancel`: stop jobs for good."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import orjson

from eventjobs.cli import documents, options, output
from eventjobs.cli.each import for_each_job
from eventjobs.cli.remote import Problem, Remote, job_path, with_operator
from eventjobs.domain.job import State
from eventjobs.domain.limits import LIST_LIMIT_MAX

UNFINISHED = (State.QUEUED, State.FAILED, State.RUNNING)
"""In the order in which a job that goes on meanwhile is met once more rather than missed."""
ENDED_MEANWHILE = ("illegal_transition", "job_not_found")


@click.command(short_help="Stop jobs for good.")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All unfinished jobs, or those of --kind and --queue.")
@click.option("--kind", metavar="KIND", help="With --all: only jobs of this kind.")
@click.option("--queue", metavar="QUEUE", help="With --all: only jobs in this queue.")
@click.option("--reason", metavar="TEXT", help="Why; the job's history keeps it.")
@click.option("--yes", is_flag=True, help="With --all: do not ask before.")
@options.json_option
@with_operator
def cancel(
    ids: tuple[str, ...],
    everything: bool,
    kind: str | None,
    queue: str | None,
    reason: str | None,
    yes: bool,
    as_json: bool,
    remote: Remote,
) -> None:
    """Stop jobs for good, waiting or running.

    A running job's worker learns it at its next renewal and stops the handler. Each job is decided on its own; one
    that was refused is named, and makes the exit code 1. With --all one that ends meanwhile is passed over; jobs that
    come in meanwhile, or are given back just then, may be left: say it again.
    """
    if bool(ids) == everything:
        raise click.UsageError("name the jobs by their ids, or say --all")
    if ids and (kind is not None or queue is not None or yes):
        raise click.UsageError("--kind, --queue and --yes go with --all")
    if ids:
        for_each_job(remote, ids, "cancel", {"reason": reason}, as_json)
        return
    chosen = {name: value for name, value in (("kind", kind), ("queue", queue)) if value is not None}
    if not yes:
        _ask(chosen)
    canceled = sum(_cancel(remote, job_id, reason) for job_id in _unfinished(remote, chosen))
    if as_json:
        output.print_json(orjson.dumps({"canceled": canceled}))
    else:
        click.echo(f"{canceled} canceled")


def _ask(chosen: dict[str, str]) -> None:
    """Raises Abort at a no, and UsageError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise click.UsageError("what is canceled does not come back: say --yes where nobody can be asked")
    words = "".join(f" of {name} {value}" for name, value in chosen.items())
    click.confirm(f"Cancel all unfinished jobs{words}?", abort=True, err=True)


def _unfinished(remote: Remote, chosen: dict[str, str]) -> Iterator[str]:
    """The ids of the jobs, newest first in each state."""
    for state in UNFINISHED:
        cursor: dict[str, str] = {}
        while True:
            page = documents.loads(remote.get("/jobs", state=state.value, limit=LIST_LIMIT_MAX, **chosen, **cursor))
            yield from (job["id"] for job in page["jobs"])
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}


def _cancel(remote: Remote, job_id: str, reason: str | None) -> bool:
    """Whether it was this that ended the job."""
    try:
        remote.post(job_path(job_id, "cancel"), {"reason": reason})
    except Problem as problem:
        if problem.code not in ENDED_MEANWHILE:
            raise
        return False
    return True
