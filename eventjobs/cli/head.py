"""`eventjobs head`: the log in three lines, to be kept where nobody who can change the log can change them."""

from __future__ import annotations

import base64
from pathlib import Path

import click
import orjson

from eventjobs.cli import options, output
from eventjobs.cli.exits import CannotCheck, Refused
from eventjobs.cli.remote import Remote
from eventjobs.cli.signing import checkpoints, signing_options
from eventjobs.cli.sources import source_options
from eventjobs.cli.stores import Database, open_proofs
from eventjobs.store.contract import Corrupt, Head, StoreError


@click.command(short_help="Print the head of the log, to be kept elsewhere.")
@signing_options
@options.json_option
@source_options
def head(origin: str | None, key_file: Path | None, as_json: bool, store: Path | Database | None, url: str) -> None:
    """Print the head of the log: the log's name, its size, and the root of the tree over its records.

    Keep it where nobody who can change the log can change it. `verify --from-head` shows later whether the log still
    begins with what it was. The form is that of c2sp.org/tlog-checkpoint; with a key it is signed. Without --origin and
    --signing-key, a coordinator's head comes as the coordinator writes it.
    """
    if store is not None:
        found = _document(_stored_head(store), origin, key_file)
    else:
        with Remote(url) as remote:
            found = orjson.loads(remote.get("/log/head"))
        if origin is not None or key_file is not None:
            found = _document(Head(found["size"], base64.b64decode(found["root"])), origin, key_file)
    if as_json:
        output.print_json(orjson.dumps(found))
    else:
        click.echo(found["note"], nl=False)


def _stored_head(store: Path | Database) -> Head:
    try:
        with open_proofs(store) as reader:
            return reader.head()
    except Corrupt as error:
        raise Refused(str(error)) from error
    except StoreError as error:
        raise CannotCheck(str(error)) from error


def _document(head: Head, origin: str | None, key_file: Path | None) -> dict[str, object]:
    notes = checkpoints(origin, key_file)
    root = base64.b64encode(head.root).decode()
    return {"size": head.size, "root": root, "origin": notes.origin, "note": notes.note(head)}
