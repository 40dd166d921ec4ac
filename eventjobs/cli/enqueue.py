"""`eventjobs enqueue`: put jobs in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import orjson

from eventjobs.cli import options, output
from eventjobs.cli.bulk import enqueue_lines
from eventjobs.cli.remote import Remote, with_remote
from eventjobs.domain.limits import PRIORITY_MAX, PRIORITY_MIN


@click.command(short_help="Put a job in, or one for each line.")
@click.argument("kind", required=False)
@click.argument("payload", required=False)
@click.option(
    "--file", "source", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read from this file."
)
@click.option("--lines", is_flag=True, help="Each line of the input is a job of its own.")
@click.option("--queue", help="The lane the job waits in.  [default: default]")
@click.option("--priority", type=click.IntRange(PRIORITY_MIN, PRIORITY_MAX), help="Higher goes first.  [default: 0]")
@click.option("--delay", "delay_seconds", type=click.FloatRange(min=0), help="Seconds to wait before it may run.")
@click.option("--run-at", help="When it may run, such as 2030-01-31T08:00:00Z.")
@click.option("--max-attempts", type=click.IntRange(min=1), help="Attempts before it is given up.  [default: 5]")
@click.option("--retry-policy", help='JSON, such as {"type":"exponential","base":1,"max_delay":300}.')
@click.option("--key", "idempotency_key", help="Idempotency key: the same request again yields the same job.")
@options.json_option
@with_remote
def enqueue(
    kind: str | None,
    payload: str | None,
    source: Path | None,
    lines: bool,
    as_json: bool,
    remote: Remote,
    **fields: Any,
) -> None:
    """Put a job of a KIND in, with a PAYLOAD of JSON (null when left out; - or --file reads it).

    With --lines, standard input (or --file) is read line by line: with a KIND each line is a payload, without one
    each line is a whole job as POST /jobs takes it. Lines go in by the thousand; when some are refused, the command
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
        job = orjson.loads(answer)
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
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"{where} is not JSON: {error} (a text needs its own quotes: '\"hello\"')") from error
    return text
