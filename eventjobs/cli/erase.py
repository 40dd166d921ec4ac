"""`eventjobs erase`: let the contents of finished jobs be gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click

from eventjobs.cli import documents, options, output
from eventjobs.cli.durations import DURATION
from eventjobs.cli.each import for_each_job
from eventjobs.cli.remote import Remote, with_remote
from eventjobs.domain.job import FINISHED
from eventjobs.domain.limits import LIST_LIMIT_MAX


@click.command(short_help="Erase payload, result and errors of finished jobs.")
@click.argument("ids", metavar="[ID...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All finished jobs, or those of --kind, --queue, --older-than.")
@click.option("--kind", metavar="KIND", help="With --all: only jobs of this kind.")
@click.option("--queue", metavar="QUEUE", help="With --all: only jobs in this queue.")
@click.option(
    "--older-than", metavar="DURATION", type=DURATION, help="With --all: only jobs that ended so long ago: 30d."
)
@click.option("--reason", metavar="TEXT", help="Why; the job's history keeps it.")
@options.json_option
@with_remote
def erase(
    ids: tuple[str, ...],
    everything: bool,
    kind: str | None,
    queue: str | None,
    older_than: int | None,
    reason: str | None,
    as_json: bool,
    remote: Remote,
) -> None:
    """Erase payload, result and error texts of finished jobs.

    The history stays whole and verifies; an event says who erased what, and when. The bytes leave the store's file when
    it is compacted. Each job is decided on its own; one that was refused, as it is not finished, is named, and makes
    the exit code 1.
    """
    if bool(ids) == everything:
        raise click.UsageError("name the jobs by their ids, or say --all")
    if ids and (kind, queue, older_than) != (None, None, None):
        raise click.UsageError("--kind, --queue and --older-than go with --all")
    chosen = list(_finished(remote, kind, queue, older_than or 0)) if everything else ids
    for_each_job(remote, chosen, "erase", {"reason": reason}, as_json)


def _finished(remote: Remote, kind: str | None, queue: str | None, older_than: int) -> Iterator[str]:
    """Ids of the jobs that ended so many microseconds ago by this machine's clock, newest first in each state."""
    latest = datetime.now(UTC) - timedelta(microseconds=older_than)
    for state in sorted(FINISHED):
        cursor = None
        while True:
            answer = remote.get("/jobs", state=state, kind=kind, queue=queue, limit=LIST_LIMIT_MAX, cursor=cursor)
            page = documents.loads(answer)
            for job in page["jobs"]:
                if not older_than or output.moment(job["finished_at"]) <= latest:
                    yield job["id"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
