"""`eventjobs archive`: move old records into the archive while no coordinator runs."""

from __future__ import annotations

import time
from pathlib import Path

import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.durations import DURATION
from eventjobs.cli.progress import Tell, progress_bars
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StorageFull, StoreError
from eventjobs.store.lmdb import LmdbEngine, open_engine


@click.command(short_help="Move old records of the log into the archive.")
@options.data_option()
@click.option(
    "--older-than",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="Move records that are older than this: a number and s, m, h, d or w, such as 30d.",
)
@options.json_option
def archive(data: Path, older_than: int, as_json: bool) -> None:
    """Move old records of the log into the archive: sealed files in DIR/archive, under the same head.

    Whole segments of 65,536 records are moved, of which the newest is older than the age that is given. No answer
    changes by it, and no job or payload moves. The coordinator must not run; while it runs, `serve --archive-after`
    does the same. `eventjobs compact` gives the room that becomes free back to the disk.
    """
    if not data.is_dir():
        raise exits.CannotCheck(f"{data} does not exist: there is no store")
    try:
        engine = open_engine(data, READ_MODELS)
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    try:
        before = engine.archive.end
        with progress_bars() as tell:
            _move(engine, time.time_ns() // 1_000 - older_than, tell)
        after, size = engine.archive.end, _size(engine)
    except StorageFull as error:
        raise exits.CannotCheck(str(error)) from error
    except StoreError as error:
        raise exits.Refused(str(error)) from error
    finally:
        engine.close()
    if as_json:
        output.print_json(orjson.dumps({"moved": after - before, "archived": after, "size": size}))
    else:
        click.echo(f"{after - before:,} records moved; {after:,} of {size:,} are in the archive")


def _move(engine: LmdbEngine, before: int, tell: Tell) -> None:
    more = True
    while more:
        more = engine.seal(before, _no_pause)
        while engine.empty():
            pass
        tell("records", engine.archive.end, 0)


def _no_pause() -> None:
    """Nobody else waits."""


def _size(engine: LmdbEngine) -> int:
    with engine.read() as reader:
        return reader.head().size
