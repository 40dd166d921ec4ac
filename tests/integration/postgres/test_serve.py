"""`eventjobs serve --store`: coordinators as processes over one database."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from eventjobs.cli import exits
from eventjobs.testing.postgres import OwnServer
from eventjobs.testing.processes import CoordinatorProcess, wait_for

SERVE = [sys.executable, "-W", "error", "-m", "eventjobs", "serve"]


def serve(*options: str, cwd: Path, **environment: str) -> tuple[int, str]:
    """The exit code and what is said of a start that is refused."""
    variables = {"PATH": "", "EVENTJOBS_PORT": "0", **environment}
    done = subprocess.run([*SERVE, *options], cwd=cwd, capture_output=True, text=True, timeout=60, env=variables)
    return done.returncode, done.stderr


def test_two_coordinators_serve_one_queue(pair) -> None:
    """What one takes in, the other leases and completes; both show the same log, and stop in good order."""
    first, second = pair
    _, job = first.ask("/jobs", {"kind": "k", "payload": [1.50, "x"]})
    _, leased = second.ask("/lease", {"worker": "w", "wait_seconds": 5})
    assert [each["id"] for each in leased["jobs"]] == [job["id"]]
    token = leased["jobs"][0]["lease_token"]
    status, done = first.ask(f"/jobs/{job['id']}/complete", {"token": token, "result": {"a": 1.0}})
    assert (status, done["state"], done["result"]) == (200, "succeeded", {"a": 1.0})
    assert first.ask("/events") == second.ask("/events")
    assert first.ask("/stats")[1]["head"]["size"] == 3
    assert "database" in first.log.read_text() and "password" not in first.log.read_text()
    assert first.stop() == second.stop() == exits.DONE


def test_a_lock_on_the_intake_takes_no_coordinator_down(pair, foreign) -> None:
    """Looks that met the lock and gave up leave it ready, and jobs are enqueued, leased and completed."""
    first, second = pair
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'eventjobs.intake'::regclass"
    with foreign.transaction():
        foreign.execute("LOCK TABLE eventjobs.intake IN ACCESS EXCLUSIVE MODE")
        for count in (1, 0, 1, 0):
            wait_for(lambda count=count: min(foreign.execute(waits).fetchone()[0], 1) == count, "a look to meet it")
        for each in pair:
            assert each.ask("/readyz")[0] == 200
        _, job = first.ask("/jobs", {"kind": "k", "idempotency_key": "a"})
        _, leased = second.ask("/lease", {"worker": "w", "wait_seconds": 5})
        token = leased["jobs"][0]["lease_token"]
        assert second.ask(f"/jobs/{job['id']}/complete", {"token": token})[0] == 200


def test_a_long_poll_is_woken_by_the_other_coordinator(pair) -> None:
    """A job that comes in elsewhere is handed out here within a second or so."""
    first, second = pair
    waiting = subprocess.Popen(
        [sys.executable, "-c", POLL, first.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: first.ask("/jobs/" + str(uuid.uuid4()))[0] == 404, "the first coordinator")
    _, job = second.ask("/jobs", {"kind": "k"})
    out, _ = waiting.communicate(timeout=30)
    assert out.strip() == job["id"]


POLL = """
import json, sys, urllib.request
body = json.dumps({"worker": "w", "wait_seconds": 20}).encode()
request = urllib.request.Request(sys.argv[1] + "/lease", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=30))["jobs"][0]["id"])
"""


def test_a_coordinator_outlives_a_restart_of_its_database(tmp_path: Path, server: OwnServer) -> None:
    """Meanwhile it answers 503 for now, is not ready, and stays; afterwards it goes on by itself."""
    with CoordinatorProcess(tmp_path, store=server.url) as coordinator:
        _, job = coordinator.ask("/jobs", {"kind": "k"})
        server.stop(crash=True)
        status, problem = coordinator.ask("/jobs", {"kind": "k"})
        assert (status, problem["code"]) == (503, "overloaded")
        assert coordinator.ask("/readyz")[0] == coordinator.ask(f"/jobs/{job['id']}")[0] == 503
        assert coordinator.ask("/healthz")[0] == 200
        server.start()
        wait_for(lambda: coordinator.ask("/readyz")[0] == 200, "the coordinator to be ready again")
        assert coordinator.ask(f"/jobs/{job['id']}")[1]["state"] == "queued"
        assert coordinator.ask("/jobs", {"kind": "k"})[0] == 201
        assert coordinator.stop() == exits.DONE


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--store", "mysql://x/y"], exits.USAGE, "postgresql://user@host/name"),
        (["--store", "postgresql://127.0.0.1:1/x", "--data", "d"], exits.USAGE, "not both"),
        (["--store", "postgresql://127.0.0.1:1/x", "--map-size", "1G"], exits.USAGE, "--map-size is for"),
        (["--store", "postgresql://u:secret@127.0.0.1:1/x?connect_timeout=2"], exits.CANNOT_SERVE, "cannot be reached"),
        (["--store", "postgresql://u@h/x?nonsense=1"], exits.CANNOT_SERVE, "nonsense"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_with_one_clear_line(tmp_path: Path, options, code, said) -> None:
    """What is wrong, without the password, and nothing is left behind."""
    returned, text = serve(*options, cwd=tmp_path)
    assert (returned, said in text, "secret" in text, "Traceback" in text) == (code, True, False, False), text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("told", ["option", "variable"])
def test_an_archive_of_a_database_is_refused(tmp_path: Path, told: str) -> None:
    """Also where only the environment asks for it: the rule would not be kept."""
    options = ["--archive-after", "30d"] if told == "option" else []
    variables = {} if told == "option" else {"EVENTJOBS_ARCHIVE_AFTER": "30d"}
    returned, text = serve("--store", "postgresql://127.0.0.1:1/x", *options, cwd=tmp_path, **variables)
    assert returned == exits.USAGE and "a database has no archive" in text, text


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """The package is named, and how it comes in."""
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "__init__.py").write_text("raise ImportError('No module named psycopg')\n")
    returned, text = serve("--store", "postgresql://h/x", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert returned == exits.CANNOT_SERVE and "pip install '.[postgres]'" in text, text
