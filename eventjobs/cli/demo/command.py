"""`eventjobs demo`: the command."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eventjobs.cli import options, output
from eventjobs.cli.demo.plan import library_files, plan
from eventjobs.cli.demo.processes import Cast
from eventjobs.cli.demo.report import Outcome, print_outcome
from eventjobs.cli.demo.show import Show
from eventjobs.cli.exits import CommandError, Refused

FILES_MIN = 100
"""With fewer, it would be over before a worker can be frozen and another killed."""


@click.command(short_help="Show on real files that nothing is lost or done twice.")
@click.option(
    "--files", metavar="NUMBER", type=click.IntRange(min=FILES_MIN), help="Take only so many files; all when left out."
)
@click.option("--keep", is_flag=True, help="Keep the directory with the store and the logs of the processes.")
@click.option(
    "--store", metavar="URL", help="Use two coordinators on this empty PostgreSQL database, and kill one half-way."
)
@options.json_option
def demo(files: int | None, keep: bool, store: str | None, as_json: bool) -> None:
    """Show on real files that nothing is lost or done twice.

    Starts a coordinator on a store of its own and three worker processes, and enqueues a job for each file of
    Python's standard library: hash it, compress it. One worker is frozen until its leases have run out, another is
    killed outright; some jobs fail twice, some die and are requeued. At the end the whole log is read back and
    checked: each job finished exactly once, with the right digest, and nothing came in under an old token.

    Takes less than a minute. The exit code is 1 when anything is off; the logs are kept then.
    """
    tasks = plan(library_files()[:files])
    if len(tasks) < FILES_MIN:
        raise Refused(f"found only {len(tasks)} files of the standard library; the demo needs {FILES_MIN}")
    signal.signal(signal.SIGTERM, _interrupted)
    directory = Path(tempfile.mkdtemp(prefix="eventjobs-demo-"))
    try:
        with _progress() as progress, Cast(directory) as cast:
            outcome = Show(cast, tasks, progress, store).perform()
    except CommandError:
        click.echo(f"eventjobs: the logs are in {directory}", err=True)
        raise
    except KeyboardInterrupt:
        _remove(directory, keep)
        raise
    _remove(directory, keep or bool(outcome.faults))
    finish(outcome, as_json)


def finish(outcome: Outcome, as_json: bool) -> None:
    """Tell what happened. Raises Refused when there are faults."""
    if as_json:
        output.print_json(orjson.dumps(outcome.document()))
    else:
        print_outcome(outcome)
    if outcome.faults:
        raise Refused(f"the demo found {len(outcome.faults)} faults")


def _remove(directory: Path, keep: bool) -> None:
    if keep:
        click.echo(f"eventjobs: store and logs are in {directory}", err=True)
    else:
        shutil.rmtree(directory)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(),
    )  # fmt: skip
