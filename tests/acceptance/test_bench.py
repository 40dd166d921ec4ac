"""`eventjobs bench`: figures for people and for scripts, and nothing between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson

QUICK = ["--seconds", "0.1", "--jobs", "1000", "--depth", "2000"]
FIGURES = ("single enqueue", "bare endpoint", "pickup when idle", "batch enqueue", "lease + complete", "GET /stats")
SCENARIOS = ("single enqueues", "pickup by an idle worker", "enqueue in batches", "lease and complete in batches")


def bench(directory: Path, *options: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "eventjobs", "bench", "--directory", str(directory), *QUICK, *options]


def test_whoever_watches_sees_what_is_measured(on_terminal: Callable[..., str], tmp_path: Path) -> None:
    """A terminal is told each scenario as it begins; the output has the figures, and no line of the worker's log."""
    with (tmp_path / "output").open("wb") as output:
        told = on_terminal(bench(tmp_path), 80, output).splitlines()
    assert [line for line in told if not line.startswith("eventjobs: measuring ")] == []
    assert [scenario for line in told for scenario in SCENARIOS if scenario in line] == list(SCENARIOS)
    lines = (tmp_path / "output").read_text().splitlines()
    assert all(any(line.startswith(figure) for line in lines) for figure in FIGURES)
    assert [line for line in lines if "worker_started" in line or "job_completed" in line or len(line) > 80] == []
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_a_script_gets_figures_alone(on_terminal: Callable[..., str], tmp_path: Path) -> None:
    """--json has every figure with its unit and its aim; a terminal is told nothing then."""
    with (tmp_path / "output").open("wb") as output:
        assert on_terminal(bench(tmp_path, "--depth", "0", "--json"), 80, output) == ""
    figures = orjson.loads((tmp_path / "output").read_bytes())["figures"]
    assert all(any(figure["name"].startswith(name) for figure in figures) for name in FIGURES[:-1])
    assert all(figure["value"] >= 0 and figure["met"] in (True, False, None) for figure in figures)


def test_where_nobody_watches_nothing_is_told(tmp_path: Path) -> None:
    """Without a terminal there are the figures and nothing else."""
    done = subprocess.run(bench(tmp_path, "--depth", "0"), capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"bare endpoint" in done.stdout and b"measuring" not in done.stdout


def test_a_shared_store_is_measured_with_two_coordinators(postgres_url: str, tmp_path: Path) -> None:
    """An empty database gives figures of one, of two, and of two that a snapshot hinders; another is refused."""
    command = bench(tmp_path, "--store", postgres_url, "--json")
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    figures = orjson.loads(done.stdout)["figures"]
    assert len(figures) == 5 and all(figure["value"] > 0 for figure in figures)
    again = subprocess.run(command, capture_output=True, timeout=120)
    assert again.returncode != 0 and b"wants an empty database" in again.stderr
