"""Enqueueing from lines: many jobs in few requests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec
import orjson
from attrs import frozen
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eventjobs.cli import documents, output
from eventjobs.cli.exits import CommandError
from eventjobs.cli.remote import Problem, Remote
from eventjobs.domain.limits import BATCH_JOBS_MAX, BODY_BYTES_MAX

BATCH_BYTES_MAX = BODY_BYTES_MAX // 2
"""Bytes of lines in one request; leaves room for the fields around a payload."""


@frozen
class Batch:
    """Jobs for one request, and the number of the line each came from."""

    jobs: list[object]
    lines: list[int]


def enqueue_lines(remote: Remote, stream: BinaryIO, common: dict[str, object] | None, as_json: bool) -> None:
    """Enqueue a job for each line that is not blank. Prints the jobs as JSON lines, or how many there were.

    `common` are the fields every job shares, its line being the payload; None when a line is a whole job. A batch
    is all or nothing; the first one that is refused ends the command.
    """
    created = taken = 0
    with _progress() as progress:
        task = progress.add_task("enqueue", total=None)
        for batch in _batches(stream, common):
            try:
                answer = msgspec.json.decode(
                    remote.post("/jobs/batch", {"jobs": batch.jobs}), type=dict[str, msgspec.Raw]
                )
            except CommandError as error:
                error.message = f"{_with_lines(error, batch.lines)}; {taken} lines before were taken"
                raise
            taken += len(batch.jobs)
            created += msgspec.json.decode(answer["created"])
            progress.update(task, completed=taken)
            if as_json:
                for job in msgspec.json.decode(answer["jobs"], type=list[msgspec.Raw]):
                    output.print_json(bytes(job))
    if not as_json:
        click.echo(f"{created} created" + (f", {taken - created} known already" if taken > created else ""))


def _batches(stream: BinaryIO, common: dict[str, object] | None) -> Iterator[Batch]:
    batch, size, sent = Batch([], []), 0, 0
    for number, line in enumerate(stream, start=1):
        text = line.strip()
        if not text:
            continue
        try:
            documents.loads(text)
        except ValueError as error:
            taken = f"lines up to {sent} were taken, no later ones" if sent else "no line was taken"
            column = line.find(text) + error.colno
            raise click.UsageError(f"line {number} is not JSON (column {column}: {error.msg}); {taken}") from error
        if batch.jobs and (len(batch.jobs) == BATCH_JOBS_MAX or size + len(text) > BATCH_BYTES_MAX):
            yield batch
            sent = batch.lines[-1]
            batch, size = Batch([], []), 0
        value = orjson.Fragment(text)
        batch.jobs.append(value if common is None else common | {"payload": value})
        batch.lines.append(number)
        size += len(text)
    if batch.jobs:
        yield batch


def _with_lines(error: CommandError, lines: list[int]) -> str:
    """The error's text, with line numbers where the coordinator counts jobs of the batch."""
    if not isinstance(error, Problem):
        return f"lines {lines[0]} to {lines[-1]}: {error.message}"
    return re.sub(r"\bjobs\[(\d+)\]\.?", lambda found: f"line {lines[int(found[1])]} ", error.message)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
