"""`eventjobs jobs` and `eventjobs dead`: lists, newest first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from eventjobs.cli import documents, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.remote import Remote, with_remote
from eventjobs.domain.job import State
from eventjobs.domain.limits import LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX


def _list_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--kind", metavar="KIND", help="Only jobs of this kind."),
            click.option("--queue", metavar="QUEUE", help="Only jobs in this queue."),
            click.option(
                "--limit",
                metavar="NUMBER",
                type=click.IntRange(1, LIST_LIMIT_MAX),
                default=LIST_LIMIT_DEFAULT,
                show_default=True,
                help="How many jobs at most.",
            ),
            click.option(
                "--cursor", metavar="CURSOR", help="Go on where an earlier list ended, which named its cursor."
            ),
            options.json_option,
            with_remote,
        )
    ):
        command = option(command)
    return command


@click.command(short_help="List jobs, newest first.")
@click.option(
    "--state",
    metavar="STATE",
    type=click.Choice([state.value for state in State]),
    help=f"Only jobs in this state: {', '.join(State)}.",
)
@_list_options
def jobs(remote: Remote, as_json: bool, **query: Any) -> None:
    """List jobs, newest first.

    On a terminal, what goes beyond its width stands on lines below; elsewhere each job is one line.
    """
    _show(remote.get("/jobs", **query), as_json)


@click.command(short_help="List the jobs that were given up.")
@_list_options
def dead(remote: Remote, as_json: bool, **query: Any) -> None:
    """List the jobs that were given up, with their last error; newest first.

    `eventjobs requeue ID`, or `--all`, gives them fresh attempts. On a terminal, what goes beyond its width stands on
    lines below; elsewhere each job is one line.
    """
    _show(remote.get("/dead", **query), as_json)


def _show(answer: bytes, as_json: bool) -> None:
    if as_json:
        output.print_json(answer)
        return
    page = documents.loads(answer)
    print_columns(
        ("id", "kind", "queue", "state", "#attempts", "#token", "updated", "worker or error"),
        [
            (
                job["id"],
                job["kind"],
                job["queue"],
                output.state(job["state"]),
                f"{job['attempts']}/{job['max_attempts']}",
                str(job["lease_token"]),
                output.clock(job["updated_at"]),
                job["lease_owner"] or _error(job),
            )
            for job in page["jobs"]
        ],
    )
    if page["next_cursor"] is not None:
        click.echo(f"eventjobs: there are more: --cursor {page['next_cursor']}", err=True)


def _error(job: dict[str, Any]) -> str:
    """The last error, unless the job succeeded after all."""
    return "" if job["state"] == State.SUCCEEDED else output.first_line(job["error"])
