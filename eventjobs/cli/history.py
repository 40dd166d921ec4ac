"""`eventjobs history`: everything that happened to a job, for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import orjson

from eventjobs.api.render_events import event_text
from eventjobs.api.routes_settle import canonical_id
from eventjobs.cli import exits, histories, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.remote import Remote
from eventjobs.cli.sources import source_options
from eventjobs.cli.stores import Database
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.tools.replay.fold import records_of
from eventjobs.tools.source import Source, open_source


@click.command(short_help="Tell what happened to a job, when, by whom and why.")
@click.argument("job_id", metavar="ID")
@options.json_option
@source_options
def history(job_id: str, as_json: bool, store: Path | Database | None, url: str) -> None:
    """Tell what happened to a job: when, by whom, under which attempt and token, how long it waited and ran, and why.

    With --data or --store the log itself is read, that of an export too, so jobs are found that are not in the live
    store any more. A wait goes from the time the job could have been leased, a run from the lease to whatever ended it.
    """
    if store is not None:
        texts = _stored(store, job_id)
    else:
        with Remote(url) as remote:
            texts = histories.history_texts(remote, job_id)
    if as_json:
        told = [each.document() for each in histories.tell(histories.parsed(texts))]
        output.print_json(orjson.dumps({"job_id": job_id, "events": told}))
    else:
        print_columns(histories.HEADINGS, histories.rows(histories.parsed(texts)))


def _stored(store: Path | Database, job_id: str) -> list[bytes]:
    """The texts of a job's events in a log, as HTTP has them."""
    wanted = canonical_id(job_id)
    with log_read(store) as source:
        texts = [] if wanted is None else [event_text(record) for record in records_of(source, wanted)]
    if not texts:
        raise no_job(job_id, store)
    return texts


@contextmanager
def log_read(store: Path | Database) -> Iterator[Source]:
    """The log that lies somewhere, with a bar for the reading; what is wrong with it as the command's own errors."""
    try:
        with progress_bars() as progress, open_source(store, progress) as source:
            yield source
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error


def no_job(job_id: str, store: Path | Database) -> exits.Refused:
    """Says that the log has no such job."""
    return exits.Refused(f"there is no job {job_id} in the log of {store}")
