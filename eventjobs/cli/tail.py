"""`eventjobs tail`: the log as it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import msgspec
from rich.console import Console
from rich.text import Text

from eventjobs.cli import documents, events, options, output
from eventjobs.cli.exits import Unreachable
from eventjobs.cli.remote import Remote, with_remote
from eventjobs.domain.limits import LIST_LIMIT_MAX

RECONNECT_SECONDS = 60
"""How long a broken stream is tried again before the command gives up."""
PAUSE_SECONDS = 1


@click.command(short_help="Follow the log.")
@click.option(
    "--after",
    metavar="POSITION",
    type=click.IntRange(min=0),
    help="Begin after this position, 0 being before the first; at the end of the log when left out.",
)
@click.option(
    "--follow/--no-follow", default=True, show_default=True, help="At the end of the log, wait for more or stop."
)
@options.json_option
@with_remote
def tail(after: int | None, follow: bool, as_json: bool, remote: Remote) -> None:
    """Print the events of the log, one a line, as they are recorded.

    When the connection breaks it is made again, and no event is left out or printed twice.
    """
    end = documents.loads(remote.get("/events", after=0, limit=1))["head"]["size"]
    after = end if after is None else after
    console = output.console()
    for text in _following(remote, after) if follow else _until_end(remote, after):
        if as_json:
            output.print_json(text)
        else:
            _print(console, documents.loads(text))


def _until_end(remote: Remote, after: int) -> Iterator[bytes]:
    while True:
        page = msgspec.json.decode(
            remote.get("/events", after=after, limit=LIST_LIMIT_MAX), type=dict[str, msgspec.Raw]
        )
        texts = msgspec.json.decode(page["events"], type=list[msgspec.Raw])
        if not texts:
            return
        yield from map(bytes, texts)
        after = _position(bytes(texts[-1]))


def _following(remote: Remote, after: int) -> Iterator[bytes]:
    give_up_at = None
    while True:
        try:
            texts = remote.events(after)
            give_up_at = None
            for text in texts:
                after = _position(text)
                yield text
            reason = "the coordinator ended the stream"
        except Unreachable as error:
            if give_up_at is not None and time.monotonic() > give_up_at:
                raise
            reason = error.format_message()
        if give_up_at is None:
            click.echo(f"eventjobs: {reason}; going on after position {after} when it is back", err=True)
            give_up_at = time.monotonic() + RECONNECT_SECONDS
        time.sleep(PAUSE_SECONDS)


def _position(text: bytes) -> int:
    return documents.loads(text)["position"]


def _print(console: Console, event: dict) -> None:
    # one event, one line, whatever the width: it is read with grep as well
    line = Text.assemble(
        f"{event['position']:>8} {output.clock(event['time'])} ",
        events.name(event),
        " ",
        (event["job_id"], "bold"),
        f" v{event['version']} ",
        events.story(event),
    )
    console.print(line, soft_wrap=True)
