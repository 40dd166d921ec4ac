"""The demo on a database: two coordinators, of which the one that is asked is killed half-way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson

from eventjobs.cli import exits

FILES = 150
SECONDS_MAX = 120


def test_nothing_is_lost_or_done_twice_when_a_coordinator_is_killed(tmp_path: Path, postgres_url: str) -> None:
    """The workers turn to the other coordinator, and the log proves that each job was finished exactly once."""
    demo = [sys.executable, "-W", "error", "-m", "eventjobs", "demo"]
    done = subprocess.run(
        [*demo, "--files", str(FILES), "--store", postgres_url, "--json"],
        cwd=tmp_path,
        capture_output=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == exits.DONE, done.stderr.decode()
    told = orjson.loads(done.stdout)
    assert told["faults"] == []
    assert told["jobs"] == told["events"]["job_enqueued"] == told["events"]["job_completed"] == FILES
    assert b"killed coordinator-1" in done.stderr and b"killed worker-1" in done.stderr
    assert {"worker-1", "worker-2"} <= told["expired_leases"].keys()
