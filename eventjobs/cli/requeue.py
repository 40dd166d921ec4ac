"""`eventjobs requeue`: give dead jobs a fresh set of attempts."""

from __future__ import annotations

import click

from eventjobs.cli import documents, options, output
from eventjobs.cli.each import for_each_job
from eventjobs.cli.remote import Remote, with_operator


@click.command(short_help="Give dead jobs a fresh set of attempts.")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead jobs, or those of --kind and --queue; oldest first.")
@click.option("--kind", metavar="KIND", help="With --all: only jobs of this kind.")
@click.option("--queue", metavar="QUEUE", help="With --all: only jobs in this queue.")
@click.option(
    "--limit",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    help="With --all: how many jobs at most; no bound when left out.",
)
@options.json_option
@with_operator
def requeue(
    ids: tuple[str, ...],
    everything: bool,
    kind: str | None,
    queue: str | None,
    limit: int | None,
    as_json: bool,
    remote: Remote,
) -> None:
    """Give dead jobs a fresh set of attempts; they are available at once, their tokens keep growing.

    Each named job is decided on its own; one that was refused is named, and makes the exit code 1.
    """
    if bool(ids) == everything:
        raise click.UsageError("name the jobs by their ids, or say --all")
    if ids and (kind, queue, limit) != (None, None, None):
        raise click.UsageError("--kind, --queue and --limit go with --all")
    if ids:
        for_each_job(remote, ids, "requeue", {}, as_json)
        return
    chosen = {name: value for name, value in (("kind", kind), ("queue", queue), ("limit", limit)) if value is not None}
    answer = remote.post("/dead/requeue", chosen)
    if as_json:
        output.print_json(answer)
    else:
        click.echo(f"{documents.loads(answer)['requeued']} requeued")
