"""`eventjobs intake`: jobs that producers asked for within transactions of their own, and are not in the log."""

from __future__ import annotations

from typing import Any

import click
import orjson

from eventjobs.api.wire_time import time_text
from eventjobs.cli import options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.exits import CannotCheck
from eventjobs.cli.places import DATABASE
from eventjobs.cli.stores import Database
from eventjobs.domain.limits import LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX
from eventjobs.store.contract import StoreError

HEADINGS = ("refused at", "code", "id", "kind", "actor", "reason")


@click.command(short_help="Show what producers' transactions asked for and what was refused.")
@options.setting(
    "--store",
    type=DATABASE,
    metavar="URL",
    required=True,
    help="PostgreSQL database of the store, postgresql://USER@HOST/NAME.",
)
@click.option(
    "--limit",
    metavar="NUMBER",
    type=click.IntRange(1, LIST_LIMIT_MAX),
    default=LIST_LIMIT_DEFAULT,
    show_default=True,
    help="How many refused requests to show, the newest.",
)
@options.json_option
def intake(store: Database, limit: int, as_json: bool) -> None:
    """Show how many requests of producers' transactions wait to be enqueued, and those that were refused.

    They were put in by eventjobs.enqueue, and are enqueued by any coordinator, within a second as a rule. One that
    cannot be enqueued is kept with the reason for 30 days, or until somebody deletes it from the table
    eventjobs.not_enqueued.
    """
    try:
        with store.outside() as found:
            waiting, since = found.waiting()
            refused = [_document(refusal) for refusal in found.not_enqueued(limit)]
    except StoreError as error:
        raise CannotCheck(str(error)) from error
    oldest = None if since is None else time_text(since)
    if as_json:
        output.print_json(orjson.dumps({"waiting": waiting, "oldest_asked_at": oldest, "refused": refused}))
        return
    click.echo(f"{waiting:,} waiting" + ("" if oldest is None else f", the oldest since {output.clock(oldest)}"))
    if refused:
        print_columns(HEADINGS, map(_row, refused))


def _document(refusal: Any) -> dict[str, Any]:
    payload = b"null" if refusal.payload is None else refusal.payload
    return {
        "number": refusal.number,
        "id": refusal.id,
        "code": refusal.code,
        "reason": refusal.reason,
        "job_id": refusal.job_id,
        "request": orjson.loads(refusal.request) | {"payload": orjson.Fragment(payload)},
        "actor": refusal.actor,
        "asked_at": time_text(refusal.asked_at),
        "decided_at": time_text(refusal.decided_at),
    }


def _row(document: dict[str, Any]) -> list[str]:
    when = output.clock(document["decided_at"])
    kind = str(document["request"].get("kind"))
    return [when, document["code"], document["id"], kind, document["actor"], document["reason"]]
