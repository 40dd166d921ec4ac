"""`eventjobs erase`: let the contents of finished jobs be gone."""

from __future__ import annotations

import click

from eventjobs.cli import options
from eventjobs.cli.each import for_each_job
from eventjobs.cli.remote import Remote, with_remote


@click.command(short_help="Erase payload, result and errors of finished jobs.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Why; the job's history keeps it.")
@options.json_option
@with_remote
def erase(ids: tuple[str, ...], reason: str | None, as_json: bool, remote: Remote) -> None:
    """Erase payload, result and error texts of finished jobs.

    The history stays whole and verifies; an event says who erased what, and when. The bytes leave the store's file when
    it is compacted. Each job is decided on its own; one that was refused, as it is not finished, is named, and makes
    the exit code 1.
    """
    for_each_job(remote, ids, "erase", {"reason": reason}, as_json)
