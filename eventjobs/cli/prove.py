"""`eventjobs prove`: proofs that a third party can check without us, with tools/check_proof.py or any other tool."""

from __future__ import annotations

import base64
from pathlib import Path

import click
import orjson

from eventjobs.api.render_proofs import consistency_document, inclusion_document
from eventjobs.cli import output
from eventjobs.cli.exits import CannotCheck, Refused
from eventjobs.cli.remote import Remote
from eventjobs.cli.signing import FILE, kept_head
from eventjobs.cli.sources import source_options
from eventjobs.cli.stores import Database, open_proofs
from eventjobs.store.contract import Corrupt, Head, StoreError

Proof = dict[str, object]


@click.command(short_help="Prove what is in the log, or that it begins with a kept head.")
@click.argument("position", type=click.IntRange(min=1), required=False)
@click.option("--from-head", type=FILE, metavar="FILE", help="Prove that the log begins with the one of this head.")
@click.option(
    "--size",
    type=click.IntRange(min=0),
    metavar="RECORDS",
    help="Speak of the first so many records; of all when left out.",
)
@source_options
def prove(
    position: int | None, from_head: Path | None, size: int | None, store: Path | Database | None, url: str
) -> None:
    """Print a proof that the record at POSITION is in the log; or, with --from-head, that the log begins with the one
    that a kept head stands for.

    Proofs are those of RFC 6962, as JSON. tools/check_proof.py checks them; it is one file that needs Python alone.
    --size makes the proof fit a head that was kept when the log had so many records.
    """
    if (position is None) == (from_head is None):
        raise click.UsageError("give either POSITION or --from-head")
    kept = None if from_head is None else kept_head(from_head).head
    proof = _from_store(store, position, kept, size) if store is not None else _from_url(url, position, kept, size)
    if kept is not None and base64.b64decode(proof["from"]["root"]) != kept.root:
        raise Refused(
            f"there is no proof: the first {kept.size} records are not those of the head in {from_head}. "
            "The log was rewritten, or the head is that of another"
        )
    output.print_json(orjson.dumps(proof, option=orjson.OPT_INDENT_2))


def _from_url(url: str, position: int | None, kept: Head | None, size: int | None) -> Proof:
    query = {"position": position, "from": None if kept is None else kept.size, "size": size}
    with Remote(url) as remote:
        return orjson.loads(remote.get("/log/proof", **query))


def _from_store(store: Path | Database, position: int | None, kept: Head | None, size: int | None) -> Proof:
    try:
        with open_proofs(store) as reader:
            whole = reader.head().size
            size = whole if size is None else size
            wanted = kept.size if position is None else position
            if max(wanted, size) > whole:
                raise Refused(f"there is no proof: the log has {whole} records")
            if wanted > size:
                raise Refused(f"there is no proof: {wanted} is beyond the first {size} records")
            if position is None:
                return consistency_document(reader, wanted, size)
            return inclusion_document(reader, wanted, size)
    except Corrupt as error:
        raise Refused(str(error)) from error
    except StoreError as error:
        raise CannotCheck(str(error)) from error
