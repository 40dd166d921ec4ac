"""`eventjobs serve`: the coordinator as a process."""

from __future__ import annotations

from pathlib import Path

import click

from eventjobs.cli import options
from eventjobs.cli.durations import DURATION
from eventjobs.cli.rules import RULES
from eventjobs.cli.signing import checkpoints, signing_options
from eventjobs.cli.sizes import SIZE
from eventjobs.domain.retention import Rules


@click.command(short_help="Run the coordinator.")
@options.data_option("Directory of the store; made when missing.")
@options.setting(
    "--store",
    metavar="URL",
    help="PostgreSQL database to use instead, postgresql://USER@HOST/NAME, by any number of coordinators.",
)
@options.setting(
    "--no-notify",
    is_flag=True,
    help="With --store: tell the others of no commit, for a pooler that shares connections out by transaction. They "
    "notice within a second all the same.",
)
@options.setting("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@options.setting(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=8484,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@options.setting(
    "--port-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the port to, once requests are answered. Gone when the coordinator stops.",
)
@options.setting(
    "--map-size",
    type=SIZE,
    help="How large the store may grow: bytes, or K, M, G or T (powers of 1024); 256G when left out.",
)
@options.setting(
    "--force-filesystem",
    is_flag=True,
    help="Use the directory although it is on a remote file system, whose fsync cannot be relied on.",
)
@options.setting(
    "--archive-after",
    type=DURATION,
    metavar="DURATION",
    help="Move records of the log into the archive, sealed files below --data, when they are as old as this: a number "
    "and s, m, h, d or w, such as 30d; never when left out.",
)
@options.setting(
    "--retain",
    type=RULES,
    default="",
    metavar="RULES",
    help="How long to keep what is left of finished jobs, counted from their end; for ever where no rule says so. "
    "Rules with commas between, each WHAT [queue=NAME] [kind=NAME] AGE. WHAT: succeeded, dead, canceled (the job), "
    "payloads (payload, result, errors), keys (idempotency keys). AGE: a number and s, m, h, d or w, to 100 years, or "
    "never. Such as 'succeeded 3d, succeeded kind=audit never, payloads 7d'.",
)
@signing_options
@options.log_options
def serve(
    data: Path,
    store: str | None,
    no_notify: bool,
    host: str,
    port: int,
    port_file: Path | None,
    map_size: int | None,
    force_filesystem: bool,
    archive_after: int | None,
    retain: Rules,
    origin: str | None,
    key_file: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the coordinator, on a store in a directory, or with --store on a database that many coordinators share.

    SIGTERM or Ctrl+C stops it in good order: requests that came in are answered, then it exits with 0. A second
    signal ends it at once (130); nothing that was acknowledged is lost either way.
    """
    # loaded here: the help of a command needs neither a store nor a server
    from eventjobs.cli import logs
    from eventjobs.cli.loop import run
    from eventjobs.cli.server import Server
    from eventjobs.cli.stores import Database, Directory

    say = logs.configure(log_level, log_format).write
    notes = checkpoints(origin, key_file)
    options.refuse_both()
    if store is None or options.given("data"):
        place = Directory(data.resolve(), map_size, force_filesystem)
    else:
        _refuse_what_is_for_directories(store, archive_after)
        place = Database(store, notify=not no_notify)
    run(Server(place, host, port, port_file, archive_after, notes, say, retain).run())


def _refuse_what_is_for_directories(store: str, archive_after: int | None) -> None:
    """Raises UsageError for what does not go together. What only the environment says of a directory stands back; not
    so a rule that would not be kept."""
    if not store.startswith(options.DATABASE_SCHEMES):
        raise click.UsageError("--store takes a URL such as postgresql://user@host/name; a directory is --data")
    if archive_after is not None:
        raise click.UsageError(
            "--archive-after is for a store in a directory, not for --store: a database has no archive"
        )
    for name in ("map_size", "force_filesystem"):
        if options.given(name):
            raise click.UsageError(f"--{name.replace('_', '-')} is for a store in a directory, not for --store")
