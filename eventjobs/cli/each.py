"""The same command for several jobs, each decided on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from eventjobs.cli import documents, output
from eventjobs.cli.exits import Refused
from eventjobs.cli.remote import Remote, job_path


def for_each_job(remote: Remote, ids: Sequence[str], command: str, body: dict[str, Any], as_json: bool) -> None:
    """Send the command for each job, in order; print each job after it (JSON: one per line).

    A refusal is a line on standard error and does not stop the others; Refused is raised at the end.
    """
    refused = 0
    for job_id in ids:
        try:
            answer = remote.post(job_path(job_id, command), body)
        except Refused as problem:
            click.echo(f"eventjobs: {job_id}: {problem.format_message()}", err=True)
            refused += 1
        else:
            if as_json:
                output.print_json(answer)
            else:
                click.echo(f"{job_id} {documents.loads(answer)['state']}")
    if refused:
        raise Refused(f"{refused} of {len(ids)} refused")
