"""`eventjobs bench`: run the scenarios and show the figures beside what they should be."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from pathlib import Path

import click
import orjson
import uvloop
from attrs import frozen
from rich.console import Console
from rich.table import Table

from eventjobs.tools.bench import scenarios, servers


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


@click.command()
@click.option("--seconds", default=9.0, show_default=True, help="Time for the single requests, of each server.")
@click.option("--jobs", default=60_000, show_default=True, help="Jobs sent through batches.")
@click.option("--depth", default=1_000_000, show_default=True, help="Jobs waiting in the deep store; 0 leaves it out.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Where the stores lie.")
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON.")
def bench(seconds: float, jobs: int, depth: int, data: Path | None, as_json: bool) -> None:
    """Measure the speed of this machine.

    A coordinator on a fresh store, fsync on, takes load over loopback from this process; both share the machine. The
    single requests are compared with a bare aiohttp endpoint in the same run. Figures are medians.
    """
    figures = uvloop.run(_measure(seconds, jobs, depth, data or Path.cwd()))
    if as_json:
        click.echo(orjson.dumps({"machine": _machine(), "figures": [_document(figure) for figure in figures]}))
        return
    table = Table(title=f"{_machine()['cores']} cores, Python {_machine()['python']}, {_machine()['system']}")
    for column, side in (("figure", "left"), ("measured", "right"), ("aim", "right"), ("", "left")):
        table.add_column(column, justify=side)
    for figure in figures:
        table.add_row(*_row(figure))
    Console(width=None if sys.stdout.isatty() else 110).print(table)


async def _measure(seconds: float, jobs: int, depth: int, directory: Path) -> list[Figure]:
    figures = []
    with servers.coordinator(directory) as (address, _), servers.bare_endpoint(directory) as (bare, _):
        ratio = await scenarios.single_enqueue(address, bare, seconds, rounds=3)
        figures += [
            Figure("single enqueue, 32 connections", ratio.rate, "requests/s"),
            Figure("bare endpoint, 32 connections", ratio.bare, "requests/s"),
            Figure("single enqueue against the bare endpoint", ratio.ratio, "", 0.4),
        ]
        latencies = await scenarios.pickup_latency(address, times=200)
        figures += [
            Figure("pickup when idle, p50", statistics.median(latencies) * 1_000, "ms", 5, less_is_better=True),
            Figure("pickup when idle, p99", latencies[int(len(latencies) * 0.99)] * 1_000, "ms"),
        ]
    with servers.coordinator(directory) as (address, _):
        rate = await scenarios.batch_enqueue(address, jobs)
        figures.append(Figure("batch enqueue, 1,000 a request", rate, "jobs/s", 50_000))
        figures.append(
            Figure("lease + complete, batches of 100", await scenarios.lease_and_complete(address), "jobs/s", 15_000)
        )
    if depth:
        figures += await _depth_figures(directory, depth)
    return figures


async def _depth_figures(directory: Path, depth: int) -> list[Figure]:
    with servers.coordinator(directory) as (address, pid):
        shallow = await scenarios.at_depth(address, pid, 1_000)
        deep = await scenarios.at_depth(address, pid, depth)
    figures = [
        Figure(f"{name}: {depth:,} waiting against 1,000", after / before, "times", 1.5, less_is_better=True)
        for name, before, after in (
            ("single enqueue", shallow.enqueue_ms, deep.enqueue_ms),
            ("single lease", shallow.lease_ms, deep.lease_ms),
            ("GET /stats", shallow.stats_ms, deep.stats_ms),
        )
    ]
    megabytes = {name: size / 2**20 for name, size in deep.memory.items()}
    return [
        *figures,
        Figure(f"resident memory, {depth:,} waiting", megabytes["total"], "MiB", 150, less_is_better=True),
        Figure("  of it not file pages", megabytes["anonymous"], "MiB"),
    ]


def _row(figure: Figure) -> tuple[str, str, str, str]:
    value = f"{figure.value:,.0f}" if figure.value >= 1_000 else f"{figure.value:.2f}"
    sign = "≤" if figure.less_is_better else "≥"
    aim = "" if figure.target is None else f"{sign} {figure.target:,g}"
    verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[figure.met]
    return figure.name, f"{value} {figure.unit}".strip(), aim, verdict


def _document(figure: Figure) -> dict[str, object]:
    return {"name": figure.name, "value": figure.value, "unit": figure.unit, "aim": figure.target, "met": figure.met}


def _machine() -> dict[str, object]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
