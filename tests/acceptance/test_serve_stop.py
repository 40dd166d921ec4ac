"""`eventjobs serve` asked to stop: who waits is answered at once; when it says that it stopped, the store is free."""

from __future__ import annotations

import signal
import socket
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from eventjobs.cli import exits
from eventjobs.cli.server import FINISH_SECONDS
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess

WAIT_SECONDS = 30
ROUND_TRIPS = 3
"""Answered requests after one that waits, by which it surely has begun to wait."""


def send(connection: socket.socket, line: str, *headers: str, body: bytes = b"") -> None:
    """Send a request, or its beginning."""
    head = [line + " HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, "", ""]
    connection.sendall("\r\n".join(head).encode() + body)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def connect(coordinator: CoordinatorProcess) -> Iterator[Callable[[], socket.socket]]:
    """Makes connections to the coordinator, closed when the test ends."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            socket.create_connection(("127.0.0.1", coordinator.port), timeout=WAIT_SECONDS)
        )


def test_who_waits_is_answered_when_it_stops(
    coordinator: CoordinatorProcess, connect: Callable[[], socket.socket]
) -> None:
    """A worker's long-poll ends empty-handed, a tail of the log in good order, and a request whose body is still
    arriving is told to come again: at once, and not when the time to finish is up."""
    slow, tail, poll, others = connect(), connect(), connect(), connect()
    send(slow, "POST /jobs", "Content-Length: 20", "Expect: 100-continue")
    assert b"100 Continue" in slow.recv(100), "its handler runs, and waits for the body"
    send(tail, "GET /events", "Accept: text/event-stream")
    assert b" 200 OK" in tail.recv(65536)
    asked = b'{"worker": "w", "wait_seconds": 60}'
    send(poll, "POST /lease", f"Content-Length: {len(asked)}", body=asked)
    for _ in range(ROUND_TRIPS):
        send(others, "GET /healthz")
        assert b" 200 OK" in others.recv(65536)
    asked_at = time.monotonic()
    coordinator.process.send(signal.SIGTERM)
    answer = rest(poll)
    assert b" 200 OK" in answer and answer.endswith(b'{"jobs":[]}')
    assert rest(tail).endswith(b"0\r\n\r\n"), "the stream broke off"
    refusal = rest(slow)
    assert b" 503 " in refusal and b"Retry-After: 1\r\n" in refusal and b'"shutting_down"' in refusal
    assert coordinator.process.wait() == exits.DONE
    assert time.monotonic() - asked_at < FINISH_SECONDS, "it waited for the body"


OPENED_WHEN_IT_STOPPED = """
    # `eventjobs serve`, but whoever reads that it stopped opens its directory at once.
    import sys
    from pathlib import Path

    from eventjobs.cli import logs
    from eventjobs.cli.main import main
    from eventjobs.store.lmdb import open_engine

    class Reader:
        def write(self, line):
            print(line, end="", flush=True)
            if line.endswith("stopped\\n"):
                open_engine(Path(sys.argv[1])).close()
                print("the directory is free", flush=True)

    logs.configure = lambda *settings: Reader()
    main(["serve", "--data", sys.argv[1], "--port", "0"])
"""


def test_the_store_is_free_when_it_says_that_it_stopped(tmp_path: Path) -> None:
    """What is being written is finished and the store closed before it is said: the next coordinator can have it."""
    program = [sys.executable, "-W", "error", "-c", textwrap.dedent(OPENED_WHEN_IT_STOPPED), str(tmp_path / "data")]
    with ProgramProcess(program, tmp_path / "log") as process:
        process.wait_for_text("serving on")
        assert process.terminate() == exits.DONE, process.text()
    assert process.text().endswith("eventjobs: stopped\nthe directory is free\n")
