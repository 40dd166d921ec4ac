"""`eventjobs verify`: the command."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.places import PLACE
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.signing import FILE, kept_head
from eventjobs.cli.sources import store_options
from eventjobs.cli.stores import Database
from eventjobs.store.checkpoint import ORIGIN_DEFAULT
from eventjobs.store.contract import StoreError
from eventjobs.tools.verify.database import verify_database
from eventjobs.tools.verify.isolated import Document, Failed, verify_isolated
from eventjobs.tools.verify.report import Outcome, counted

STYLES = {Outcome.SOUND: "green", Outcome.DAMAGED: "bold red", Outcome.UNCHECKED: "yellow"}
EXIT_CODES = {Outcome.SOUND: exits.DONE, Outcome.DAMAGED: exits.REFUSED, Outcome.UNCHECKED: exits.USAGE}


@click.command(short_help="Check that nothing was altered, lost or cut off.")
@click.argument("what", type=PLACE, metavar="[WHAT]", required=False)
@store_options(
    "Directory of the store, or a copy of its file. A coordinator may run on it.",
    "PostgreSQL database to check instead, postgresql://USER@HOST/NAME. Coordinators may run on it.",
    metavar="DIR|FILE",
)
@click.option("--from-head", type=FILE, metavar="FILE", help="Show that the log begins with the one of this head.")
@click.option("--public-key", type=FILE, metavar="FILE", help="The key that the head must be signed with.")
@click.option("--origin", metavar="NAME", help="The name of the log that the head must have.")
@click.option("--quick", is_flag=True, help="Look at the records' checksums and the tree over them alone.")
@options.json_option
def verify(
    what: Path | Database | None, place: Path | Database, from_head: Path | None, public_key: Path | None,
    origin: str | None, quick: bool, as_json: bool,
) -> None:  # fmt: skip
    """Check that nothing in a store was altered, lost or cut off.

    WHAT is a backup, an export, or one file of an archive; or, as --data and --store name it too, a store. Nothing in
    it is changed, and a coordinator may run on it: then a copy is taken first, in the directory for temporary files
    (TMPDIR), and of a database always, as an export.

    Looked at are the file's structure; each record's checksum, place, form and time; the tree over the records, against
    the store's head and, with --from-head, against one that was kept elsewhere; whether each event could happen to its
    job as it then was; payloads, results and errors against their digests; and job rows, indexes and read models, which
    are made anew from the log and compared row by row; of a database, the log and the contents.

    The exit code is 0 when all is sound, 1 when something is damaged, and 2 when not all of it could be looked at.
    """
    if from_head is None and (public_key is not None or origin is not None):
        raise click.UsageError("--public-key goes with --from-head, and so does --origin")
    if what is not None and (options.given("data") or options.given("store")):
        raise click.UsageError("give either WHAT, or --data or --store")
    place = place if what is None else what
    try:
        kept = None if from_head is None else kept_head(from_head, public_key, origin)
        with progress_bars() as progress:
            head = None if kept is None else kept.head
            if isinstance(place, Database):
                document = verify_database(place, head, quick, progress).document()
            else:
                document = verify_isolated(place, head, quick, progress)
    except exits.Refused as error:
        raise exits.CannotCheck(error.message) from error
    except (StoreError, Failed) as error:
        raise exits.CannotCheck(str(error)) from error
    if kept is not None and origin is None and kept.origin != ORIGIN_DEFAULT:
        document["said"].append(f"The head that was kept is of a log named {kept.origin}.")
    if as_json:
        output.print_json(orjson.dumps(document))
    else:
        print_report(document)
    sys.exit(EXIT_CODES[Outcome(document["outcome"])])


def print_report(document: Document) -> None:
    """What a verification found, check by check."""
    rows = []
    for check in document["checks"]:
        outcome = Outcome(check["outcome"])
        words = [*filter(None, [_facts(check)]), *(fault["text"] for fault in check["faults"])]
        if more := check["faults_total"] - len(check["faults"]):
            words.append(f"and {more:,} more")
        rows.append((check["name"], output.text(outcome, STYLES[outcome]), words[0] if words else ""))
        rows += [("", "", line) for line in words[1:]]
    print_columns(("check", "outcome", "what was found"), rows)
    console = output.console()
    for sentence in document["said"]:
        console.print(output.text(sentence))
    outcome = Outcome(document["outcome"])
    first = document["first_bad_position"]
    where = "" if first is None else f"; the first bad record is at position {first:,}"
    what = "" if document["size"] is None else f": {counted(document['size'], 'record')}, root {document['root']}"
    console.print(output.text(f"{outcome}{what}{where}", STYLES[outcome]), soft_wrap=True)


def _facts(check: Document) -> str:
    return "; ".join(part for part in (check["facts"], check["unchecked"]) if part)
