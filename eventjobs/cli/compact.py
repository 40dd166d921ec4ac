"""`eventjobs compact`: give the room of what is gone back to the disk."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.progress import progress_bars
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.compact import compact as compact_store


@click.command(short_help="Give the room of what is gone back to the disk.")
@options.data_option()
@options.json_option
def compact(data: Path, as_json: bool) -> None:
    """Give the room of what is gone back to the disk.

    The store's file keeps the room of records that were moved to the archive and of contents that were erased, and
    their bytes too, until something else is written there. It is written anew without them, compared row by row, and
    put in its own place. The coordinator must not run. There must be room for the new file beside the old one; when
    this is interrupted, the old one is untouched.
    """
    try:
        with progress_bars() as tell:
            done = compact_store(data, lambda rows, total: tell("rows", rows, total))
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    if as_json:
        output.print_json(orjson.dumps({"before": done.before, "after": done.after}))
    else:
        click.echo(f"{data}: {done.before:,} bytes before, {done.after:,} after")
