"""`eventjobs backup` and `eventjobs restore`: the commands."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import orjson

from eventjobs.api.faults import Unfit
from eventjobs.api.values import printable_ascii
from eventjobs.api.wire_time import time_text
from eventjobs.cli import exits, options, output
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.remote import user_at_host
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.limits import ACTOR_LENGTH_MAX
from eventjobs.domain.points import Point
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.tools.backup.copying import copy_directory, copy_from_coordinator
from eventjobs.tools.backup.restore import Restored, restore
from eventjobs.tools.backup.verified import Damaged, Whole, verified
from eventjobs.tools.newfile import new_file
from eventjobs.tools.points import POINT, NoSuchPoint
from eventjobs.tools.verify.report import counted, path_text

FILE = click.Path(dir_okay=False, path_type=Path)
QUICK = click.option("--quick", is_flag=True, help="Verify the records' checksums and the tree over them alone.")


class _Operator(click.ParamType):
    """The name of an operator, as the log keeps it."""

    name = "name"
    _checked = staticmethod(printable_ascii(ACTOR_LENGTH_MAX))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Actor:
        try:
            return Actor(ActorType.OPERATOR, self._checked(value))
        except Unfit as unfit:
            self.fail(str(unfit), param, ctx)


@click.command(name="backup", short_help="Copy a whole store into a file while it is at work.")
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
    with _failures_told(), progress_bars() as progress, new_file(target) as file:
        if data is not None:
            copy_directory(data, file.path, progress)
            whole = verified(file.path, quick, progress, "the store")
        else:
            said = copy_from_coordinator(url, file.path, progress)
            whole = verified(file.path, quick, progress, "the store")
            if said != (str(whole.head.size), base64.b64encode(whole.head.root).decode()):
                raise Damaged(f"{target} is damaged: it is not the log that the coordinator said it would send")
    _tell("backed up", "to", Whole(target, whole.bytes, whole.head), quick, time.monotonic() - begun, as_json)


@click.command(name="restore", short_help="Make a store of a backup, up to any point of it.")
@click.argument("file", metavar="BACKUP", type=click.Path(path_type=Path))
@options.data_option("Directory of the store to be made; it must not be there, or be empty.")
@click.option(
    "--until",
    type=POINT,
    metavar="POINT",
    help="Leave out what came after this position, or after this time (2026-11-30T12:00:00Z).",
)
@options.setting(
    "--actor", type=_Operator(), metavar="NAME", help="Who restores, for the log; USER@HOST when left out."
)
@QUICK
@options.json_option
def restore_command(
    file: Path, data: Path, until: Point | None, actor: Actor | None, quick: bool, as_json: bool
) -> None:
    """Make a data directory of a backup, up to any point of it.

    BACKUP is a file that `eventjobs backup` made, or the directory of a store that nobody has open. It is verified, and
    not changed. With --until the records up to that point keep their positions and hashes, and everything else is made
    anew from them; nothing of what came later is there. What was erased later does not come back: new records say so,
    and such a job that had not ended at that point is canceled.

    The exit code is 0 when it is done, 1 when the backup is damaged or has no such point, and 2 when it could
    not be done.
    """
    begun = time.monotonic()
    with _failures_told(), progress_bars() as progress:
        who = Actor(ActorType.OPERATOR, user_at_host()) if actor is None else actor
        restored = restore(file, data, until, quick, who, progress)
    whole = Whole(data, restored.whole.bytes, restored.whole.head)
    _tell("restored", "into", whole, quick, time.monotonic() - begun, as_json, restored)


@contextmanager
def _failures_told() -> Iterator[None]:
    """What stands in the way, as an exit code and a line."""
    try:
        yield
    except (Damaged, Corrupt, NoSuchPoint) as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error
    except OSError as error:
        where = "" if error.filename is None else f": {path_text(Path(os.fsdecode(error.filename)))}"
        raise exits.CannotCheck(f"it cannot be written{where}: {error.strerror or error}") from error


def _tell(
    did: str, where: str, whole: Whole, quick: bool, seconds: float, as_json: bool, restored: Restored | None = None
) -> None:
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
        if restored is not None:
            document |= {"records": restored.records, "erased_jobs": restored.erased_jobs}
        output.print_json(orjson.dumps(document))
        return
    upto = f" up to {time_text(head.time)}" if head.size else ""
    how = "checksums and tree verified" if quick else "verified"
    console = output.console()
    what = f"{did} {counted(head.size, 'record')}{upto} {where} {path_text(whole.file)}"
    console.print(output.text(what, "green"), soft_wrap=True)
    console.print(output.text(f"{whole.bytes:,} bytes, {how}, in {output.duration(seconds)}"), soft_wrap=True)
    console.print(output.text(f"root {root}"), soft_wrap=True)
    if restored is not None and restored.erased_jobs:
        added = counted(head.size - restored.records, "record")
        jobs = counted(restored.erased_jobs, "job")
        said = f"{added} after position {restored.records:,} say that the contents of {jobs} were erased since"
        console.print(output.text(said, "yellow"), soft_wrap=True)
