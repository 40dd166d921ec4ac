"""`eventjobs erase`: let the contents of finished jobs be gone."""

from __future__ import annotations

import sys
import time
from typing import Any

import click
import orjson

from eventjobs.cli import documents, options, output
from eventjobs.cli.durations import DURATION
from eventjobs.cli.each import for_each_job
from eventjobs.cli.exits import CommandError
from eventjobs.cli.remote import Remote, with_operator
from eventjobs.domain.durations import AGE_SECONDS_MAX
from eventjobs.domain.job import FINISHED
from eventjobs.domain.limits import MICROSECONDS


@click.command(short_help="Erase payload, result and errors of finished jobs.")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--kind", metavar="KIND", help="All finished jobs of this kind.")
@click.option("--queue", metavar="QUEUE", help="All finished jobs in this queue.")
@click.option(
    "--state",
    metavar="STATE",
    type=click.Choice([state.value for state in sorted(FINISHED)]),
    help=f"All finished jobs in this state: {', '.join(sorted(FINISHED))}.",
)
@click.option(
    "--older-than",
    metavar="DURATION",
    type=DURATION,
    help="All jobs that ended so long ago: a number and s, m, h, d or w, such as 30d.",
)
@click.option("--reason", metavar="TEXT", help="Why; the history of the jobs keeps it.")
@click.option("--yes", is_flag=True, help="Do not ask before many jobs are erased.")
@options.json_option
@with_operator
def erase(
    ids: tuple[str, ...],
    kind: str | None,
    queue: str | None,
    state: str | None,
    older_than: int | None,
    reason: str | None,
    yes: bool,
    as_json: bool,
    remote: Remote,
) -> None:
    """Erase payload, result and error texts of finished jobs: of those named, or of all that the options choose.

    The history stays whole and verifies; an event says who erased what, and when. The bytes leave the store's file when
    it is compacted. Each named job is decided on its own; one that was refused, as it is not finished, is named, and
    makes the exit code 1. Options that choose narrow each other; jobs that end while this goes on are not erased.
    """
    chosen = {"kind": kind, "queue": queue, "state": state}
    chooses = older_than is not None or any(value is not None for value in chosen.values())
    if bool(ids) == chooses:
        raise click.UsageError("name the jobs by their ids, or choose them by --kind, --queue, --state, --older-than")
    if ids:
        for_each_job(remote, ids, "erase", {"reason": reason}, as_json)
        return
    if not yes:
        _ask(chosen, older_than)
    erased = _erase_all(remote, {**chosen, "reason": reason}, (older_than or 0) / MICROSECONDS)
    if as_json:
        output.print_json(orjson.dumps({"erased": erased}))
    else:
        click.echo(f"{erased} erased")


def _ask(chosen: dict[str, Any], older_than: int | None) -> None:
    """Raises Abort at a no, and UsageError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise click.UsageError("what is erased does not come back: say --yes where nobody can be asked")
    words = [f"{name} {value}" for name, value in chosen.items() if value is not None]
    if older_than is not None:
        words.append(f"ended {older_than // MICROSECONDS} s ago or earlier")
    click.confirm(f"Erase the contents of all finished jobs ({', '.join(words)})?", abort=True, err=True)


def _erase_all(remote: Remote, body: dict[str, Any], older_seconds: float) -> int:
    """Ask until nothing is left that had ended by the time of the first request."""
    began, erased = time.monotonic(), 0
    while True:
        older_than = min(older_seconds + time.monotonic() - began, AGE_SECONDS_MAX)
        try:
            answer = documents.loads(remote.post("/erase", {**body, "older_than_seconds": older_than}))
        except CommandError as error:
            error.message += f"; {erased} jobs were erased before"
            raise
        if not answer["erased"]:
            return erased
        erased += answer["erased"]
