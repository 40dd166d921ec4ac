"""`eventjobs serve` when nobody reads what it says: it serves on, and stops in good order."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import orjson
import pytest

from eventjobs.testing.processes import wait_for

JOBS = 600
"""Their leases run out with a line each: more than a pipe holds."""
STOP_SECONDS = 15


def asked(url: str, body: dict | None = None) -> dict:
    """The answer of the coordinator, to a POST when there is a body."""
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STOP_SECONDS) as answer:
        return orjson.loads(answer.read())


@pytest.mark.parametrize("reader", ["gone", "still"])
def test_a_coordinator_that_nobody_listens_to_works_and_stops(tmp_path: Path, reader: str) -> None:
    """With a standard error that is closed or that nobody empties leases run out, jobs are taken, and the end is 0."""
    port_file = tmp_path / "port"
    reading, writing = os.pipe()
    serve = ["serve", "--data", str(tmp_path / "data"), "--port", "0", "--port-file", str(port_file)]
    if reader == "gone":
        os.close(reading)
    process = subprocess.Popen([sys.executable, "-m", "eventjobs", *serve], stderr=writing)
    try:
        wait_for(port_file.exists, "the port file")
        url = f"http://127.0.0.1:{port_file.read_text().strip()}"
        asked(url + "/jobs/batch", {"jobs": [{"kind": "k"}] * JOBS})
        asked(url + "/lease", {"worker": "silent", "max_jobs": JOBS, "lease_seconds": 0.2})
        wait_for(lambda: asked(url + "/stats")["jobs"]["running"] == 0, "the end of the leases")
        asked(url + "/jobs", {"kind": "k"})
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(writing)
        if reader == "still":
            os.close(reading)
