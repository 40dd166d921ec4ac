"""`eventjobs history`: everything that happened to a job, for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from eventjobs.api.render_events import event_text
from eventjobs.api.routes_settle import canonical_id
from eventjobs.cli import exits, histories, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.remote import Remote
from eventjobs.cli.sources import source_options
from eventjobs.cli.stores import Database
from eventjobs.store.codec import decode_record
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.tools.source import open_source


@click.command(short_help="Tell what happened to a job, when, by whom and why.")
@click.argument("job_id", metavar="ID")
@options.json_option
@source_options
def history(job_id: str, as_json: bool, store: Path | Database | None, url: str) -> None:
    """Tell what happened to a job: when, by whom, under which attempt and token, how long it waited and ran, and why.

    With --data or --store the log is read from its beginning to its end, so jobs are found too that are not in the
    store any more. A wait goes from the time the job could have been leased, a run from the lease to whatever ended it.
    """
    if store is not None:
        texts = list(_stored(store, job_id))
    else:
        with Remote(url) as remote:
            texts = histories.history_texts(remote, job_id)
    if as_json:
        told = [each.document() for each in histories.tell(histories.parsed(texts))]
        output.print_json(orjson.dumps({"job_id": job_id, "events": told}))
    else:
        print_columns(histories.HEADINGS, histories.rows(histories.parsed(texts)))


def _stored(store: Path | Database, job_id: str) -> Iterator[bytes]:
    """The texts of a job's events in a store, as HTTP has them."""
    wanted = canonical_id(job_id)
    found = False
    try:
        with open_source(store) as source:
            mark = (wanted or job_id).encode()
            for _, text in source.texts():
                if mark not in text:
                    continue
                record = decode_record(text)
                if record.job_id == wanted:
                    found = True
                    yield event_text(record)
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    if not found:
        raise exits.Refused(f"there is no job {job_id} in the log of {store}")
