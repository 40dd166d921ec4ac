"""`eventjobs demo`: it shows what it promises, tells scripts the same, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import psutil

from eventjobs.cli import exits
from eventjobs.testing.processes import ProgramProcess, wait_for

DEMO = [sys.executable, "-W", "error", "-m", "eventjobs", "demo"]
FILES = 200
SECONDS_MAX = 120


def test_every_act_is_played_and_the_log_proves_it(tmp_path: Path) -> None:
    """Run in an empty directory: leases run out, late completions are refused, jobs are retried, die and come back,
    and each is finished exactly once; it leaves no process and no file, and ends with DONE."""
    done = subprocess.run(
        [*DEMO, "--files", str(FILES), "--json"], cwd=tmp_path, capture_output=True, timeout=SECONDS_MAX,
        env={**os.environ, "TMPDIR": str(tmp_path), "EVENTJOBS_URL": "http://127.0.0.1:1", "EVENTJOBS_PORT": "1"},
    )  # fmt: skip
    assert done.returncode == exits.DONE, done.stderr.decode()
    told = orjson.loads(done.stdout)
    assert told["faults"] == []
    events = told["events"]
    assert told["jobs"] == events["job_enqueued"] == events["job_completed"] == FILES
    assert {"worker-1", "worker-2"} <= told["expired_leases"].keys(), "of the killed worker and of the frozen one"
    assert told["late_completions_overtaken"] >= 1, "of a job that another worker ran"
    assert told["late_completions_refused"] >= 2 + told["late_completions_overtaken"]
    assert events["attempt_failed"] >= 2 * FILES // 25
    assert events["job_died"] >= FILES // 50
    assert events["job_requeued"] == events["job_died"]
    assert sum(events.values()) == told["log_events"]
    for words in (b"froze worker-2", b"killed worker-1", b"thawed worker-2", b"dead; mended"):
        assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_ends_its_processes_when_it_is_interrupted(tmp_path: Path) -> None:
    """Ctrl+C in the middle: the coordinator and the workers end, the directory goes, the exit code is INTERRUPTED."""
    with ProgramProcess([*DEMO], tmp_path / "log", {"TMPDIR": str(tmp_path)}) as demo:
        demo.wait_for_text("froze")
        children = psutil.Process(demo.pid).children()
        assert len(children) == 4
        demo.send(signal.SIGINT)
        assert demo.wait() == exits.INTERRUPTED
        wait_for(lambda: not any(child.is_running() for child in children), "its processes to end")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_it_fails_when_a_process_is_lost(tmp_path: Path) -> None:
    """When a worker ends that it did not kill, it says which, keeps the logs, and ends with REFUSED."""
    with ProgramProcess([*DEMO], tmp_path / "log", {"TMPDIR": str(tmp_path)}) as demo:
        demo.wait_for_text("froze")
        (third,) = [child for child in psutil.Process(demo.pid).children() if "worker-3" in child.cmdline()]
        third.kill()
        assert demo.wait() == exits.REFUSED
        assert "worker-3 ended by itself with code -9" in demo.text()
    (kept,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert str(kept) in demo.text()
    assert (kept / "coordinator.log").exists()
