"""`eventjobs enqueue`: put jobs in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import orjson

from eventjobs.cli import documents, options, output
from eventjobs.cli.bulk import enqueue_lines
from eventjobs.cli.remote import Remote, with_actor
from eventjobs.domain.limits import (
    MAX_ATTEMPTS_DEFAULT,
    MAX_ATTEMPTS_MAX,
    MAX_ATTEMPTS_MIN,
    PRIORITY_MAX,
    PRIORITY_MIN,
)


@click.command(short_help="Put a job in, or one for each line.")
@click.argument("kind", required=False)
@click.argument("payload", required=False)
@click.option(
    "--file",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the payload, or the lines, from this file.",
)
@click.option("--lines", is_flag=True, help="Make a job of each line that is read.")
@click.option("--queue", metavar="QUEUE", help="The lane the job waits in; default when left out.")
@click.option(
    "--priority",
    metavar="NUMBER",
    type=click.IntRange(PRIORITY_MIN, PRIORITY_MAX),
    help="Higher goes first; 0 when left out.",
)
@click.option(
    "--delay",
    "delay_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="How long to wait before it may run, up to 10 years; 0 when left out.",
)
@click.option("--run-at", metavar="TIME", help="When it may run instead, such as 2030-01-31T08:00:00Z, with an offset.")
@click.option(
    "--max-attempts",
    metavar="NUMBER",
    type=click.IntRange(MAX_ATTEMPTS_MIN, MAX_ATTEMPTS_MAX),
    help=f"Attempts before it is given up; {MAX_ATTEMPTS_DEFAULT} when left out.",
)
@click.option(
    "--retry-policy",
    metavar="JSON",
    help="How long to wait after a failure, in seconds: type exponential, linear or constant; when left out "
    '{"type":"exponential","base":1,"max_delay":300,"jitter":0.5}.',
)
@click.option(
    "--key",
    "idempotency_key",
    metavar="KEY",
    help="Idempotency key, 1 to 255 characters: the same request under the same key yields the same job; none when "
    "left out.",
)
@options.json_option
@with_actor
def enqueue(
    kind: str | None,
    payload: str | None,
    source: Path | None,
    lines: bool,
    as_json: bool,
    remote: Remote,
    **fields: Any,
) -> None:
    """Put a job in. Its KIND picks the handler; its PAYLOAD is any JSON.

    A PAYLOAD of - is read from standard input. Left out, and without --file, it is null.

    With --lines, each line of standard input (or of --file) becomes a job: it is the payload when a KIND is given,
    and otherwise a whole job as POST /jobs takes it. Lines go in by the thousand; when some are refused, the command
    says which, and how many went in before.
    """
    if fields["retry_policy"] is not None:
        fields["retry_policy"] = orjson.Fragment(_json_text(fields["retry_policy"].encode(), "--retry-policy"))
    given = {name: value for name, value in fields.items() if value is not None}
    if lines:
        if payload is not None or "idempotency_key" in given:
            raise click.UsageError("--lines takes no payload and no --key; a line without KIND can hold its own")
        if kind is None and given:
            raise click.UsageError("without KIND each line is a whole job; no other option applies")
        with source.open("rb") if source else click.open_file("-", "rb") as stream:
            enqueue_lines(remote, stream, None if kind is None else {"kind": kind} | given, as_json)
        return
    if kind is None:
        raise click.UsageError("Missing argument 'KIND'.")
    answer = remote.post("/jobs", {"kind": kind} | given | _payload(payload, source))
    if as_json:
        output.print_json(answer)
    else:
        job = documents.loads(answer)
        click.echo(f"{job['id']} {job['state']}")


def _payload(argument: str | None, source: Path | None) -> dict[str, Any]:
    if argument is not None and source is not None:
        raise click.UsageError("give the payload or --file, not both")
    if argument == "-":
        text = sys.stdin.buffer.read()
    elif source is not None:
        text = source.read_bytes()
    elif argument is not None:
        text = argument.encode(errors="surrogateescape")
    else:
        return {}
    return {"payload": orjson.Fragment(_json_text(text, "PAYLOAD"))}


def _json_text(text: bytes, where: str) -> bytes:
    """The text, when it is one JSON value: it goes into the request as it is."""
    try:
        documents.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{where} is not JSON: {error} (a text needs its own quotes: '\"hello\"')") from error
    return text
