"""`eventjobs replay`: the command."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import orjson

from eventjobs.api.routes_settle import canonical_id
from eventjobs.api.wire_time import time_text
from eventjobs.cli import exits, options, output
from eventjobs.cli.columns import print_columns
from eventjobs.cli.histories import history_command
from eventjobs.cli.progress import progress_bars
from eventjobs.cli.sources import store_options
from eventjobs.cli.stores import Database
from eventjobs.domain.job import Job, State
from eventjobs.domain.points import Point
from eventjobs.projections.stats import Stats
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.tools.points import POINT, NoSuchPoint, position_in
from eventjobs.tools.replay import render
from eventjobs.tools.replay.fold import Fold, job_at
from eventjobs.tools.replay.statistics_at import numbers_at, numbers_folded
from eventjobs.tools.source import Source, open_source
from eventjobs.tools.verify.report import counted

Printing = Callable[[], None]
"""Called when the work is done and something is to be printed."""


@click.command(short_help="Show jobs as they were at any point of the log.")
@store_options(
    "Directory of a store, a backup, or an export. A coordinator may run on it.",
    "PostgreSQL database instead, postgresql://USER@HOST/NAME. Coordinators may run on it.",
    "DIR|FILE",
)
@click.option("--at", type=POINT, metavar="POINT", help="A position of the log or a time; its end when left out.")
@click.option("--diff", type=POINT, nargs=2, metavar="POINT POINT", help="What changed between two points.")
@click.option("--job", metavar="ID", help="One job.")
@click.option("--queue", metavar="QUEUE", help="The jobs of one queue.")
@click.option("--jobs", "each_job", is_flag=True, help="Every job, one JSON document a line.")
@options.json_option
def replay(
    place: Path | Database, at: Point | None, diff: tuple[Point, Point] | None, job: str | None, queue: str | None,
    each_job: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show jobs as they were at any point of the log, made anew from the log: how many were where, one of them, or all.

    A point is a position, or a time such as 2026-11-30T12:00:00Z, which stands for all records that are not younger. A
    coordinator may run meanwhile; nothing in the store is changed. Payloads, results and errors are told by their
    sizes. Jobs that were retired by then are not there. With --diff, the jobs that changed between two points: how, and
    by what at last. With --json, --diff prints one document a line, as --jobs always does.
    """
    if (diff is not None and (at is not None or each_job)) or (job is not None and (queue is not None or each_job)):
        raise click.UsageError("--diff goes with neither --at nor --jobs, --job with neither --queue nor --jobs")
    with _told(), ExitStack() as bars, open_source(place, bars.enter_context(progress_bars())) as source:
        if diff is not None:
            _diff(source, diff, job, queue, as_json, bars.close)
            return
        position = _position(source, at)
        if job is not None:
            _show_job(source, place, job, position, as_json, bars.close)
        elif each_job:
            _show_each(source, queue, position, bars.close)
        else:
            _show_numbers(source, place, queue, position, as_json, bars.close)


@contextmanager
def _told() -> Iterator[None]:
    """Damage and what cannot be read, as the command's own errors."""
    try:
        yield
    except (Corrupt, NoSuchPoint) as error:
        raise exits.Refused(str(error)) from error
    except StoreError as error:
        raise exits.CannotCheck(str(error)) from error


def _position(source: Source, wanted: Point | None) -> int:
    return source.head().size if wanted is None else position_in(source, wanted)


@contextmanager
def _fold(source: Source) -> Iterator[Fold]:
    with tempfile.TemporaryDirectory(prefix="eventjobs-replay-") as directory, Scratch(Path(directory)) as scratch:
        yield Fold(source, scratch)


def _show_job(
    source: Source, place: Path | Database, job_id: str, position: int, as_json: bool, printing: Printing
) -> None:
    wanted = canonical_id(job_id)
    found = None if wanted is None else job_at(source, wanted, position)
    printing()
    if found is None:
        raise exits.Refused(f"there is no job {job_id} at position {position:,}")
    if found.retired is not None:
        raise exits.Refused(
            f"there is no job {job_id} at position {position:,} any more: it was retired at position "
            f"{found.retired.position:,}; `{history_command(wanted, place)}` tells what happened to it"
        )
    document = render.job_document(found.job)
    if as_json:
        output.print_json(orjson.dumps(document))
    else:
        print_columns(("", ""), [(name, render.short(value)) for name, value in document.items() if value is not None])


def _show_each(source: Source, queue: str | None, position: int, printing: Printing) -> None:
    with _fold(source) as fold:
        for _ in fold.advance(position):
            pass
        printing()
        for job in fold.jobs():
            if queue is None or job.spec.queue == queue:
                output.print_json(orjson.dumps(render.job_document(job)))


def _show_numbers(
    source: Source, place: Path | Database, queue: str | None, position: int, as_json: bool, printing: Printing
) -> None:
    numbers = numbers_at(place, position)
    if numbers is None:
        with _fold(source) as fold:
            numbers = numbers_folded(fold, position)
    time = time_text(source.record(position).time) if position else None
    printing()
    queues = (
        numbers.queues if queue is None else {name: states for name, states in numbers.queues.items() if name == queue}
    )
    if queue is not None and not queues:
        raise exits.Refused(f"there is no queue {queue} at position {position:,}")
    if as_json:
        output.print_json(orjson.dumps(_document(numbers, queue, queues, position, time)))
        return
    rows = [(name, *(f"{states[state]:,}" for state in State)) for name, states in sorted(queues.items())]
    if queue is None:
        rows.append(("all", *(f"{numbers.jobs[state]:,}" for state in State)))
    print_columns(("queue", *(f"#{state}" for state in State)), rows)
    click.echo(f"position {position:,}" + (f", {output.clock(time)}" if time else ""))


def _document(
    numbers: Stats, queue: str | None, queues: dict[str, dict[str, int]], position: int, time: str | None
) -> dict[str, object]:
    where = {"position": position, "time": time}
    if queue is not None:
        return where | {"queue": queue, "jobs": queues[queue]}
    return where | {
        "jobs": numbers.jobs,
        "queues": queues,
        "kinds": numbers.kinds,
        "average_wait_seconds": numbers.average_wait_seconds,
        "average_run_seconds": numbers.average_run_seconds,
        "lease_expirations": numbers.lease_expirations,
        "events": numbers.events,
    }


def _diff(
    source: Source, points: tuple[Point, Point], job: str | None, queue: str | None, as_json: bool, printing: Printing
) -> None:
    first, last = (_position(source, point) for point in points)
    if last < first:
        raise exits.Refused(f"the second point, position {last:,}, is before the first, position {first:,}")
    job_id = None if job is None else canonical_id(job) or job

    def wanted(changed: Job) -> bool:
        return job_id in (None, changed.id) and queue in (None, changed.spec.queue)

    with _fold(source) as fold:
        for _ in fold.advance(first):
            pass
        types = fold.compare(last, wanted)
        printing()
        number = 0
        for changed in fold.changed():
            number += 1
            if as_json:
                output.print_json(orjson.dumps(render.change_document(changed)))
            else:
                click.echo(render.change_line(changed))
    if not as_json:
        events = ", ".join(f"{count:,} {name}" for name, count in sorted(types.items()))
        click.echo(
            f"{counted(number, 'job')} changed from position {first:,} to {last:,}{': ' if events else ''}{events}"
        )
