"""`eventjobs bench`: run the scenarios and show the figures beside what they should be."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import click
import orjson
import uvloop
from attrs import frozen

from eventjobs.cli import logs, options, output
from eventjobs.cli.columns import Row, print_columns
from eventjobs.tools.bench import scenarios, servers

Tell = Callable[[str], None]
"""Told what is measured next."""


@frozen
class Figure:
    """One measured figure. `target` is met at or above it, or at or below it where less is better; None for none."""

    name: str
    value: float
    unit: str
    target: float | None = None
    less_is_better: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.less_is_better else self.value >= self.target


@click.command(short_help="Measure the speed of this machine.")
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=9.0,
    show_default=True,
    help="How long single requests are sent, to each of the two servers.",
)
@click.option(
    "--jobs",
    metavar="NUMBER",
    type=click.IntRange(min=1_000),
    default=60_000,
    show_default=True,
    help="How many jobs are sent in batches of 1,000.",
)
@click.option(
    "--depth",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    default=1_000_000,
    show_default=True,
    help="How many jobs wait in the deep store, in which single requests are timed again; 0 leaves that out.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Where to put the stores, which are removed at the end; the current directory when left out.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Measure two coordinators on this empty PostgreSQL database instead; it is left with what was written.",
)
@options.json_option
def bench(seconds: float, jobs: int, depth: int, directory: Path | None, store: str | None, as_json: bool) -> None:
    """Measure the speed of this machine.

    A coordinator on a fresh store, fsync on, takes load over loopback from this process; both share the machine. The
    single requests are compared with a bare aiohttp endpoint in the same run. Figures are medians.
    """
    logs.configure("warning")
    watched = sys.stderr.isatty() and not as_json
    directory, tell = directory or Path.cwd(), _say if watched else _say_nothing
    if store is None:
        figures = uvloop.run(_measure(seconds, jobs, depth, directory, tell))
    else:
        figures = uvloop.run(_measure_shared(store, directory, jobs, tell))
    if as_json:
        click.echo(orjson.dumps({"machine": _machine(), "figures": [_document(figure) for figure in figures]}))
        return
    click.echo(f"{_machine()['cores']} cores, Python {_machine()['python']}, {_machine()['system']}\n")
    print_columns(("figure", "#measured", "#aim", ""), map(_row, figures))


def _say(what: str) -> None:
    click.echo(f"eventjobs: measuring {what}", err=True)


def _say_nothing(what: str) -> None:
    """Nobody watches."""


async def _measure(seconds: float, jobs: int, depth: int, directory: Path, tell: Tell) -> list[Figure]:
    figures = []
    tell("single enqueues")
    with servers.coordinator(directory) as (address, _), servers.bare_endpoint(directory) as (bare, _):
        ratio = await scenarios.single_enqueue(address, bare, seconds, rounds=3)
        figures += [
            Figure("single enqueue, 32 connections", ratio.rate, "requests/s"),
            Figure("bare endpoint, 32 connections", ratio.bare, "requests/s"),
            Figure("single enqueue against the bare endpoint", ratio.ratio, "", 0.4),
        ]
        tell("pickup by an idle worker")
        latencies = await scenarios.pickup_latency(address, times=200)
        figures += [
            Figure("pickup when idle, p50", statistics.median(latencies) * 1_000, "ms", 5, less_is_better=True),
            Figure("pickup when idle, p99", latencies[int(len(latencies) * 0.99)] * 1_000, "ms"),
        ]
    with servers.coordinator(directory) as (address, _):
        tell("enqueue in batches")
        rate = await scenarios.batch_enqueue(address, jobs)
        figures.append(Figure("batch enqueue, 1,000 a request", rate, "jobs/s", 50_000))
        tell("lease and complete in batches")
        rate = await scenarios.lease_and_complete(address)
        figures.append(Figure("lease + complete, batches of 100", rate, "jobs/s", 15_000))
    if depth:
        figures += await _depth_figures(directory, depth, tell)
    return figures


async def _measure_shared(url: str, directory: Path, jobs: int, tell: Tell) -> list[Figure]:
    from eventjobs.tools.bench import shared  # needs psycopg, which is an extra

    found = await shared.measure(url, directory, jobs, tell)
    return [
        Figure("batch enqueue, 1,000 a request", found.enqueued, "jobs/s"),
        Figure("lease + complete, batches of 100", found.alone, "jobs/s"),
        Figure("the same by two coordinators", found.together, "jobs/s", 6_000),
        Figure("two coordinators against one", found.together / found.alone, "times", 1),
        Figure("two with a snapshot held open against without", found.hindered / found.together, "times", 0.7),
    ]


async def _depth_figures(directory: Path, depth: int, tell: Tell) -> list[Figure]:
    with servers.coordinator(directory) as (shallow, _), servers.coordinator(directory) as (deep, pid):
        tell(f"requests while {depth:,} jobs wait, after filling the store")
        await scenarios.fill(shallow, 1_000)
        await scenarios.fill(deep, depth)
        found = await scenarios.at_depth(shallow, deep, times=300)
        memory = servers.memory_bytes(pid)
    figures = [
        Figure(
            f"{name}, {depth:,} waiting / 1,000",
            found.deep[name] / found.shallow[name],
            "times",
            1.5,
            less_is_better=True,
        )
        for name in found.deep
    ]
    if memory:
        total, anonymous = (memory[name] / 2**20 for name in ("total", "anonymous"))
        figures += [
            Figure(f"resident memory, {depth:,} waiting", total, "MiB", 150, less_is_better=True),
            Figure("  of it not file pages", anonymous, "MiB"),
        ]
    return figures


def _row(figure: Figure) -> Row:
    value = f"{figure.value:,.0f}" if figure.value >= 1_000 else f"{figure.value:.2f}"
    sign = "≤" if figure.less_is_better else "≥"
    aim = "" if figure.target is None else f"{sign} {figure.target:,g}"
    verdict = {None: "", True: output.text("met", "green"), False: output.text("missed", "red")}[figure.met]
    return figure.name, f"{value} {figure.unit}".strip(), aim, verdict


def _document(figure: Figure) -> dict[str, object]:
    return {"name": figure.name, "value": figure.value, "unit": figure.unit, "aim": figure.target, "met": figure.met}


def _machine() -> dict[str, object]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
