"""Asking a coordinator that is just being started, and one that is not where --url says."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace

import pytest

from eventjobs.cli import exits, remote
from eventjobs.cli.remote import Problem, Remote, job_path
from eventjobs.client import answers
from eventjobs.client.errors import refusal

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


@pytest.fixture
def closed() -> socket.socket:
    """An address that refuses connections until somebody listens on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken


def test_a_refused_connection_is_tried_again(closed: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is given just before the coordinator listens is answered."""
    pauses = []

    def start(seconds: float) -> None:
        if not pauses:
            closed.listen()
            threading.Thread(target=answer, daemon=True).start()
        pauses.append(seconds)

    def answer() -> None:
        connection, _ = closed.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(ANSWER)

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=time.monotonic, sleep=start))
    with Remote(f"http://127.0.0.1:{closed.getsockname()[1]}") as coordinator:
        assert coordinator.get("/stats") == b"{}"
    assert pauses == [remote.PAUSE_SECONDS]


def test_a_refused_connection_is_not_tried_for_long(closed: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nobody listens in time, the command ends."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with Remote(f"http://127.0.0.1:{closed.getsockname()[1]}") as coordinator, pytest.raises(exits.Unreachable):
        coordinator.post("/jobs", {"kind": "a"})
    assert remote.START_SECONDS <= now[0] < remote.START_SECONDS + 2 * remote.PAUSE_SECONDS


def test_a_broken_connection_is_not_tried_again(closed: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """When something may have been sent, the command says so at once."""
    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pytest.fail))
    closed.listen()
    threading.Thread(target=lambda: closed.accept()[0].close(), daemon=True).start()
    with Remote(f"http://127.0.0.1:{closed.getsockname()[1]}") as coordinator, pytest.raises(exits.Unreachable):
        coordinator.post("/jobs", {"kind": "a"})


def test_a_text_that_is_no_job_id_is_told() -> None:
    """Whoever leaves out a part of an id is not told that the job does not exist."""
    assert job_path("01890A5D-ac96-774b-bcce-b302099a8057", "why").endswith("8057/why")
    for text in ("abc", "01890a5d-ac96-774b-bcce-b302099a805", "../stats", ""):
        with pytest.raises(exits.Refused, match="is no job id"):
            job_path(text)


def test_a_path_that_is_not_there_hints_at_the_url() -> None:
    """The commands ask for paths that every coordinator has; a job that is not there may have been retired."""
    absent = Problem(refusal(answers.Problem(code="not_found", status=404, detail="there is nothing at /foo/stats")))
    assert absent.message == (
        "not_found: there is nothing at /foo/stats; "
        "--url should be the address of the coordinator itself, such as http://127.0.0.1:8484"
    )
    job = Problem(refusal(answers.Problem(code="job_not_found", status=404, detail="there is no job x")))
    assert job.message == (
        "job_not_found: there is no job x; "
        "a job that was retired is in the log alone: `eventjobs history ID --data DIR` tells of it"
    )
