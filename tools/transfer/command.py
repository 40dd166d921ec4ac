"""`eventjobs export` and `eventjobs import`: the commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from eventjobs.cli import exits, options, output
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.signing import checkpoints
from eventjobs.cli.sources import store_options
from eventjobs.cli.stores import Database
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.tools.newfile import NotWritten, new_file
from eventjobs.tools.newstore import TargetInUse, new_store
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer.export import Exported, export
from eventjobs.tools.transfer.importing import Target, import_export
from eventjobs.tools.transfer.lines import NotAnExport
from eventjobs.tools.verify.command import print_report
from eventjobs.tools.verify.report import Outcome, counted, path_text

STANDARD = "-"


@click.command("export", short_help="Write the log as lines of JSON.")
@store_options(
    "Directory of the store, or a copy of its file. A coordinator may run on it.",
    "PostgreSQL database to export instead, postgresql://USER@HOST/NAME. Coordinators may run on it.",
    metavar="DIR|FILE",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default=Path(STANDARD), metavar="FILE",
    help="Where to; a file that is there is not written over. Standard output when left out, or with -.",
)  # fmt: skip
@options.setting("--origin", metavar="NAME", help="Name of this log, as in its heads; eventjobs when left out.")
@options.json_option
def export_command(place: Path | Database, out: Path, origin: str | None, as_json: bool) -> None:
    """Write the log as lines of JSON: every record as it was written, with its payload, result or error, and the head.

    `import` makes a store of it with the same positions and hashes. The export is that of one moment, and a coordinator
    is not held up. With --json, what was written is told as JSON: on standard error where the export goes to standard
    output.
    """
    name = checkpoints(origin, None).origin
    try:
        with open_source(place) as source, _output(out) as stream, progress_bars() as progress:
            exported = export(source, name, stream, progress)
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    click.echo(_told(exported, as_json), err=str(out) == STANDARD)


@contextmanager
def _output(out: Path) -> Iterator[BinaryIO]:
    if str(out) != STANDARD:
        with new_file(out) as file:
            yield file.stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        raise NotWritten(f"standard output cannot be written: {error.strerror}") from error


def _told(exported: Exported, as_json: bool) -> str:
    checkpoint = {"size": exported.head.size, "root": exported.head.root_text()}
    if as_json:
        counts = {"contents": exported.contents, "contents_gone": exported.gone}
        return orjson.dumps(checkpoint | counts).decode()
    gone = f", {exported.gone:,} gone" if exported.gone else ""
    contents = f"{counted(exported.contents, 'content')}{gone}"
    return f"exported: {counted(exported.head.size, 'record')}, {contents}, root {checkpoint['root']}"


@click.command("import", short_help="Make a store of an export.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@store_options(
    "Directory of the store to be made; it must not be there, or be empty.",
    "PostgreSQL database to make the store in instead, postgresql://USER@HOST/NAME; it must have none.",
)
@options.json_option
def import_command(file: Path, place: Path | Database, as_json: bool) -> None:
    """Make a store of the export in FILE, or of that on standard input (-), with the same positions and hashes.

    All of it is verified while it is read: the form and order of its lines, every record, the tree, whether each event
    could happen to its job, and the digests of payloads, results and errors. The store is there when all of it was
    sound; else what is wrong is told with its line, and nothing is left behind.
    """
    try:
        with _input(file) as stream, _new_store(place) as target, progress_bars() as progress:
            report = import_export(stream, path_text(file), target, progress)
    except NotAnExport as error:
        raise exits.CannotCheck(f"{file}: {error}") from error
    except Corrupt as error:
        raise exits.Refused(str(error)) from error
    except (StoreError, OSError) as error:
        raise exits.CannotCheck(str(error)) from error
    document = report.document()
    sound = report.outcome is Outcome.SOUND
    if as_json:
        output.print_json(orjson.dumps(document))
    elif sound:
        click.echo(f"imported: {counted(report.size, 'record')}, root {report.root}")
    else:
        print_report(document)
    if not sound:
        click.echo(f"eventjobs: nothing was imported; {place} is as it was", err=True)
    sys.exit({Outcome.SOUND: exits.DONE, Outcome.DAMAGED: exits.REFUSED}.get(report.outcome, exits.USAGE))


def _new_store(place: Path | Database) -> AbstractContextManager[Target]:
    return place.fill(TargetInUse) if isinstance(place, Database) else new_store(place)


@contextmanager
def _input(file: Path) -> Iterator[BinaryIO]:
    if str(file) == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise exits.CannotCheck(f"{file} cannot be read: {error.strerror}") from error
    with stream:
        yield stream
