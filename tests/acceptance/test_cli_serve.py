"""`eventjobs serve`: it says where it is, starts only where it may, and ends as it is asked to."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import orjson
import pytest

from eventjobs.cli import exits
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, wait_for

SERVE = [sys.executable, "-W", "error", "-m", "eventjobs", "serve"]


def refused(*options: str, cwd: Path) -> str:
    """What serve says when it cannot start, on a free port unless told otherwise: one line, and CANNOT_SERVE."""
    free = os.environ | {"EVENTJOBS_PORT": "0"}
    done = subprocess.run([*SERVE, *options], cwd=cwd, env=free, capture_output=True, text=True, timeout=30)
    assert done.returncode == exits.CANNOT_SERVE, done.stderr
    assert done.stderr.startswith("eventjobs: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_it_tells_where_and_answers(tmp_path: Path) -> None:
    """A line and the port file name the port; the defaults are a directory beside and the loopback interface. Another
    line says which rules hold."""
    log, port_file = tmp_path / "log", tmp_path / "port"
    with ProgramProcess([*SERVE, "--port", "0", "--port-file", str(port_file)], log) as process:
        wait_for(port_file.exists, "the port file")
        port = int(port_file.read_text())
        data = tmp_path.resolve() / "eventjobs-data"
        where, rules = process.text().splitlines()
        assert where == f"eventjobs: serving on http://127.0.0.1:{port}, data in {data}"
        assert rules.startswith("eventjobs: keeps finished jobs for ever (no --retain); ")
        assert (tmp_path / "eventjobs-data").is_dir()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            assert answer.status == 200
        assert process.terminate() == exits.DONE
    assert process.text().endswith("eventjobs: stopped\n")
    assert not port_file.exists()


def test_a_port_file_of_an_earlier_run_is_not_left_lying(tmp_path: Path) -> None:
    """A script that waits for the file never reads the port of a coordinator that was killed."""
    (tmp_path / "port").write_text("1\n")
    shown = refused("--port-file", "port", "--data", os.devnull + "/x", cwd=tmp_path)
    assert "/dev/null/x" in shown
    assert not (tmp_path / "port").exists()


def test_a_refused_coordinator_leaves_the_port_file_of_the_running_one(tmp_path: Path) -> None:
    """Who is started twice by mistake does not hide the first."""
    with CoordinatorProcess(tmp_path) as coordinator:
        port_file = tmp_path / "port"
        written = port_file.read_text()
        shown = refused("--port", "0", "--port-file", "port", "--data", str(coordinator.data), cwd=tmp_path)
        assert f"process {coordinator.process.pid}" in shown
        assert port_file.read_text() == written


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    """What a container is given as variables is used."""
    settings = {"EVENTJOBS_PORT": "0", "EVENTJOBS_DATA": str(tmp_path / "elsewhere"), "EVENTJOBS_LOG_LEVEL": "debug"}
    with ProgramProcess(SERVE, tmp_path / "log", settings) as process:
        process.wait_for_text("serving on")
        assert f"data in {tmp_path.resolve() / 'elsewhere'}" in process.text()


def test_one_coordinator_for_a_directory(coordinator: CoordinatorProcess, tmp_path: Path) -> None:
    """A second one on the same directory is refused, with its whole path, and the first goes on."""
    shown = refused("--data", coordinator.data.name, "--port", "0", cwd=coordinator.data.parent)
    assert f" {coordinator.data.resolve()} is in use" in shown and str(coordinator.process.pid) in shown
    assert "or give this one a data directory of its own" in shown
    assert coordinator.process.running


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """The address that is taken stands in the message, with what to do, and no directory was made for nothing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        shown = refused("--port", str(port), cwd=tmp_path)
    assert f"cannot listen on 127.0.0.1 port {port}: " in shown and "running already? --port takes another" in shown
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    """A file that is no store is neither used nor touched."""
    (tmp_path / "data").mkdir()
    foreign = tmp_path / "data" / "data.mdb"
    foreign.write_bytes(b"something else" * 1000)
    assert "data/data.mdb is not a store" in refused("--data", "data", "--port", "0", cwd=tmp_path)
    assert foreign.read_bytes() == b"something else" * 1000


def test_an_open_address_is_warned_of(tmp_path: Path) -> None:
    """Beyond the loopback interface it says that nobody is asked who they are."""
    with ProgramProcess([*SERVE, "--port", "0", "--host", "0.0.0.0"], tmp_path / "log") as process:
        process.wait_for_text("no authentication")
        assert "serving on http://0.0.0.0:" in process.text()


def test_a_second_signal_ends_it_at_once(coordinator: CoordinatorProcess) -> None:
    """While it waits for a connection to end in good order, another signal ends it with INTERRUPTED."""
    with socket.create_connection(("127.0.0.1", coordinator.port)) as connection:
        connection.sendall(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 413 " in connection.recv(100)  # its body is passed over now, so that the client reads the answer
        coordinator.process.send(signal.SIGTERM)
        wait_for(lambda: not listens(coordinator.port), "it to take no more connections")
        coordinator.process.send(signal.SIGTERM)
        assert coordinator.process.wait() == exits.INTERRUPTED


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process can only be set on Linux")
def test_a_store_that_fails_ends_it(tmp_path: Path) -> None:
    """When a commit fails so that its outcome is open, it answers 503, says so and exits with COORDINATOR_FAILED;
    started again, it goes on with everything that it had acknowledged."""
    with CoordinatorProcess(tmp_path) as coordinator:
        limit = (coordinator.data / "data.mdb").stat().st_size + (1 << 20)
        resource.prlimit(coordinator.process.pid, resource.RLIMIT_FSIZE, (limit, limit))  # writing beyond it fails
        acknowledged, status = [], 201
        while status == 201:
            status, answer = enqueue(coordinator.url, "x" * 10_000)
            if status == 201:
                acknowledged.append(answer["id"])
        assert (status, answer["code"]) == (503, "shutting_down"), answer
        assert coordinator.process.wait() == exits.COORDINATOR_FAILED
        assert "the store failed" in coordinator.process.text().splitlines()[-1]
        coordinator.restart()
        for job_id in acknowledged:
            with urllib.request.urlopen(f"{coordinator.url}/jobs/{job_id}", timeout=30) as found:
                assert found.status == 200


def enqueue(url: str, payload: str) -> tuple[int, dict]:
    """Status and document of an enqueue."""
    request = urllib.request.Request(
        f"{url}/jobs", orjson.dumps({"kind": "k", "payload": payload}), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, orjson.loads(error.read())


GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
NO_HTTP = {
    "garbage": b"\x00\x01\x02 garbage\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a garbage method, after a good request": GOOD + b"G@RB[]GE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a bad size of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a bad length": POST + b"Content-Length: abc\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "an endless line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "another version": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_does_not_fill_the_log(coordinator: CoordinatorProcess, sent: bytes) -> None:
    """Whatever a port scanner sends is refused with 400 and at most a line of warning, without a traceback."""
    with socket.create_connection(("127.0.0.1", coordinator.port), timeout=30) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b" 400 Bad Request\r\n" in answer
    assert enqueue(coordinator.url, "x")[0] == 201
    assert coordinator.stop() == exits.DONE
    lines = [orjson.loads(line) for line in coordinator.process.text().splitlines() if line.startswith("{")]
    assert len(lines) <= 1
    assert [(line["level"], "exception" in line) for line in lines] == [("warning", False)] * len(lines)
    assert "Traceback" not in coordinator.process.text()


@pytest.mark.parametrize("level", ["info", "debug"])
def test_what_is_logged_depends_on_the_level(tmp_path: Path, level: str) -> None:
    """Each change of a job is a line at debug level only; each line is JSON with the job's facts."""
    with CoordinatorProcess(tmp_path, "--log-level", level) as coordinator:
        job = enqueue(coordinator.url, "x")[1]
        assert coordinator.stop() == exits.DONE
        lines = [orjson.loads(line) for line in coordinator.process.text().splitlines() if line.startswith("{")]
    enqueued = [line for line in lines if line["event"] == "job_enqueued"]
    assert len(enqueued) == (level == "debug")
    assert all(job["id"] in line.values() and line["kind"] == "k" for line in enqueued)
