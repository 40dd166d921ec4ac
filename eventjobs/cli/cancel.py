"""`eventjobs cancel`: stop jobs for good."""

from __future__ import annotations

import click

from eventjobs.cli import options
from eventjobs.cli.each import for_each_job
from eventjobs.cli.remote import Remote, with_operator


@click.command(short_help="Stop jobs for good.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", metavar="TEXT", help="Why; the job's history keeps it.")
@options.json_option
@with_operator
def cancel(ids: tuple[str, ...], reason: str | None, as_json: bool, remote: Remote) -> None:
    """Stop jobs for good, waiting or running.

    A running job's worker learns it at its next renewal and stops the handler. Each job is decided on its own; one
    that was refused is named, and makes the exit code 1.
    """
    for_each_job(remote, ids, "cancel", {"reason": reason}, as_json)
