"""`eventjobs backup` and `eventjobs restore`: the commands."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from eventjobs.api.wire_time import time_text
from eventjobs.cli import exits, options, output
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.remote import Remote
from eventjobs.domain.points import Point
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.contract import StoreError
from eventjobs.store.lmdb.snapshot import compact_copy, data_file
from eventjobs.store.lmdb.unsealing import unseal_into
from eventjobs.tools.backup.restore import restore
from eventjobs.tools.backup.verified import Damaged, Whole, give_name, partial_file, verified
from eventjobs.tools.points import POINT
from eventjobs.tools.verify.report import counted, path_text
from eventjobs.tools.verify.verify import Progress

FILE = click.Path(dir_okay=False, path_type=Path)
QUICK = click.option("--quick", is_flag=True, help="Verify the records' checksums and the tree over them alone.")


@click.command(name="backup", short_help="Copy a whole store into a file, while it is at work, and verify it.")
@click.argument("target", type=FILE)
@options.url_option
@click.option(
    "--data",
    type=options.Local(),
    metavar="DIR",
    help="Directory of a store to copy from, a coordinator running on it or not, instead of asking the coordinator.",
)
@QUICK
@options.json_option
def backup(target: Path, url: str, data: Path | None, quick: bool, as_json: bool) -> None:
    """Copy a whole store into a file, while it is at work, and verify it.

    TARGET is as of one moment, has no free pages, and gets its name when it was verified and is on disk; nothing is
    written over. Everything that was acknowledged before the command began is in it. `eventjobs verify`, `head` and
    `prove` take it as they take a store.

    The exit code is 0 when it is done, 1 when the store is damaged, 2 when it could not be done, and 3 when no
    coordinator answers.
    """
    begun = time.monotonic()
    with _failures_told(), progress_bars() as progress, partial_file(target) as (path, stream):
        said = None
        if data is not None:
            progress("copy", 0, 0)
            source = data_file(data)
            compact_copy(source, stream)
            archive = Archive(source.with_name(ARCHIVE_DIRECTORY))
            unseal_into(path, archive, lambda done, total: progress("archive", done, total))
        else:
            said = _fetch(url, stream, progress)
        whole = verified(path, quick, progress, "the store")
        if said is not None and said != (str(whole.head.size), base64.b64encode(whole.head.root).decode()):
            raise Damaged(f"{target} is damaged: it is not the log that the coordinator said it would send")
        give_name(path, target)
    _tell("backed up", "to", Whole(target, whole.bytes, whole.head), quick, time.monotonic() - begun, as_json)


def _fetch(url: str, stream: BinaryIO, progress: Progress) -> tuple[str | None, str | None]:
    """Write what the coordinator sends into the file; the size and the root that it announced."""
    done = 0

    def write(piece: bytes) -> None:
        nonlocal done
        stream.write(piece)
        done += len(piece)
        progress("copy", done, 0)

    with Remote(url) as remote:
        headers = remote.download("/backup", write)
    stream.flush()
    return headers.get("Eventjobs-Log-Size"), headers.get("Eventjobs-Log-Root")


@click.command(name="restore", short_help="Make a data directory of a backup, up to any point of it.")
@click.argument("file", metavar="BACKUP", type=click.Path(path_type=Path))
@options.data_option("Directory of the store to be made; it must not be there, or be empty.")
@click.option(
    "--until",
    type=POINT,
    metavar="POINT",
    help="Leave out what came after this position, or after this time (2026-11-30T12:00:00Z).",
)
@QUICK
@options.json_option
def restore_command(file: Path, data: Path, until: Point | None, quick: bool, as_json: bool) -> None:
    """Make a data directory of a backup, up to any point of it.

    BACKUP is a file that `eventjobs backup` made, or the directory of a store that nobody has open. It is verified, and
    not changed. With --until the records up to that point keep their positions and hashes, and everything else is made
    anew from them; nothing of what came later is there.

    The exit code is 0 when it is done, 1 when the backup is damaged, and 2 when it could not be done.
    """
    begun = time.monotonic()
    with _failures_told(), progress_bars() as progress:
        whole = restore(file, data, until, quick, progress)
    _tell("restored", "into", Whole(data, whole.bytes, whole.head), quick, time.monotonic() - begun, as_json)


@contextmanager
def _failures_told() -> Iterator[None]:
    """What stands in the way, as an exit code and a line."""
    try:
        yield
    except Damaged as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    except OSError as error:
        where = "" if error.filename is None else f": {path_text(Path(os.fsdecode(error.filename)))}"
        raise exits.CannotCheck(f"it cannot be written{where}: {error.strerror or error}") from error


def _tell(did: str, where: str, whole: Whole, quick: bool, seconds: float, as_json: bool) -> None:
    head, root = whole.head, base64.b64encode(whole.head.root).decode()
    if as_json:
        document = {
            "file": path_text(whole.file),
            "bytes": whole.bytes,
            "size": head.size,
            "root": root,
            "time": time_text(head.time) if head.size else None,
            "verified": "quick" if quick else "full",
            "seconds": round(seconds, 3),
        }
        output.print_json(orjson.dumps(document))
        return
    upto = f" up to {time_text(head.time)}" if head.size else ""
    how = "checksums and tree verified" if quick else "verified"
    console = output.console()
    what = f"{did} {counted(head.size, 'record')}{upto} {where} {path_text(whole.file)}"
    console.print(output.text(what, "green"), soft_wrap=True)
    console.print(output.text(f"{whole.bytes:,} bytes, {how}, in {output.duration(seconds)}"), soft_wrap=True)
    console.print(output.text(f"root {root}"), soft_wrap=True)
