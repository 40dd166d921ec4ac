"""Real processes for tests: a coordinator on a free port, and programs beside it, all ended by their own ids.

    with CoordinatorProcess(tmp_path) as coordinator:
        ...  # talk to coordinator.url
        coordinator.kill()      # as a crash would
        coordinator.restart()   # same data, same port

Nothing here sleeps and hopes: each wait is for a thing, and bounded.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.02

PORTS = range(10_000, 32_768)
"""Below those that systems give out by themselves."""


def wait_for(look: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
    """The first true value of `look`, asked again and again. Raises AssertionError, naming what, when time is up."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(LOOK_SECONDS)
    return found


def free_port() -> int:
    """A port of the loopback interface that nobody listens on.

    It is none of those that the system gives to who asks for any, or connects from: so it is likely to be free still
    when a program comes to listen on it, and again when that is restarted.
    """
    while True:
        port = random.SystemRandom().choice(PORTS)
        if _is_free(port):
            return port


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


class ProgramProcess:
    """A program in a process of its own; what it prints goes to `log`. As a context it is killed at the end."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as stream:
            self._child = subprocess.Popen(
                arguments,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process has ended."""
        self._child.send_signal(number)

    def kill(self) -> None:
        """End it outright, as a crash would. A frozen one too."""
        self._child.kill()
        self._child.wait()

    def terminate(self, seconds: float = WAIT_SECONDS) -> int:
        """Ask it to stop in good order, and its exit code."""
        self._child.terminate()
        return self.wait(seconds)

    def wait(self, seconds: float = WAIT_SECONDS) -> int:
        """Its exit code, negative for the signal that ended it. Raises subprocess.TimeoutExpired."""
        return self._child.wait(seconds)

    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_text(self, text: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until it has printed a text. Raises AssertionError with its output when it ends or time is up before."""
        try:
            wait_for(lambda: text in self.text() or not self.running, f"{text!r} in {self.log.name}", seconds)
        finally:
            if text not in self.text():
                sys.stderr.write(self.text())
        assert text in self.text(), f"{self.log.name}: the process ended without printing {text!r}"


class CoordinatorProcess:
    """`eventjobs serve` on a directory and a free port of the loopback interface, ready for requests once made.

    `restart` uses the same data and port again, so that clients find it where it was. `environment` is added to this
    process's own. `store` is the URL of a database to use instead of a store in the directory.
    """

    def __init__(
        self, directory: Path, *options: str, environment: Mapping[str, str] | None = None, store: str | None = None
    ) -> None:
        self.directory, self._store = directory, store
        self.log = directory / "coordinator.log"
        self._options, self._environment = options, environment
        self._port_file = directory / "port"
        self.port = free_port()
        self.process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The directory of its store."""
        return self.directory / "data"

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and document of one request; a body is posted as JSON. Raises OSError when there is no answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, json.loads(refusal.read())

    def kill(self) -> None:
        """End it outright, as a crash would."""
        self.process.kill()

    def stop(self) -> int:
        """Ask it to stop in good order; its exit code."""
        return self.process.terminate()

    def restart(self) -> None:
        """Start it again, after it was ended: in good order if it still runs.

        Should another program have its port by now, that is waited for.
        """
        if self.process.running:
            self.stop()
        wait_for(lambda: _is_free(self.port), f"port {self.port} to be free")
        self.process = self._start()

    def _start(self) -> ProgramProcess:
        self._port_file.unlink(missing_ok=True)
        place = ["--data", str(self.data)] if self._store is None else ["--store", self._store]
        serve = [sys.executable, "-m", "eventjobs", "serve", *place, "--port", str(self.port)]
        arguments = [*serve, "--port-file", str(self._port_file), *self._options]
        process = ProgramProcess(arguments, self.log, self._environment)
        try:
            wait_for(lambda: self._answers(process), "the coordinator to be ready")
        except BaseException:
            process.kill()
            raise
        return process

    def _answers(self, process: ProgramProcess) -> bool:
        assert process.running, f"the coordinator ended:\n{process.text()}"
        written = self._port_file.read_text() if self._port_file.exists() else ""
        if not written.strip():
            return False
        self.port = int(written)
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=WAIT_SECONDS) as answer:
                return answer.status == 200
        except urllib.error.URLError:
            return False


def python(script: Path, *arguments: Any) -> list[str]:
    """The command line that runs a script with this interpreter, warnings being errors."""
    return [sys.executable, "-W", "error", str(script), *map(str, arguments)]
