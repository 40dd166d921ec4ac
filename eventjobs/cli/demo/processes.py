"""The processes of the demo. Whatever happens, none of them outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from eventjobs.cli.exits import Refused

START_SECONDS = 30
STOP_SECONDS = 20
LOOK_SECONDS = 0.05
LOG_LINES_SHOWN = 5


class Process:
    """A command of eventjobs in a process of its own, its standard error in a file."""

    def __init__(self, name: str, log: Path, arguments: list[str]) -> None:
        self.name, self.log = name, log
        environment = {key: value for key, value in os.environ.items() if not key.startswith("EVENTJOBS_")}
        with log.open("wb") as stream:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "eventjobs", *arguments],
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # Ctrl+C is for the demo, which then ends its children in order
            )
        self._killed = False

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return self._child.poll() is None

    def freeze(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it outright, as a crash would."""
        self._killed = True
        self._child.kill()
        self._child.wait()

    def stop(self) -> int:
        """Ask it to stop in good order; its exit code."""
        self._child.terminate()
        return self._child.wait(STOP_SECONDS)

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far; lines that are not JSON are left out."""
        return [orjson.loads(line) for line in self.log.read_bytes().splitlines(keepends=True) if _whole_json(line)]

    def must_run(self) -> None:
        """Raises Refused, with the end of its log, when it has ended by itself."""
        if not self._killed and not self.running():
            end = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
            raise Refused(f"{self.name} ended by itself with code {self._child.returncode}:\n{end}")


class Cast:
    """The coordinator and the workers, on a directory. As a context it ends all that still run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[Process] = []

    def start(self, name: str, *arguments: str) -> Process:
        process = Process(name, self.directory / f"{name}.log", list(arguments))
        self.processes.append(process)
        return process

    def wait_for(self, what: str, found: Callable[[], Any], seconds: float = START_SECONDS) -> Any:
        """The first true value of `found`, looked for until the time is up. Raises Refused when nothing comes."""
        end = time.monotonic() + seconds
        while not (value := found()):
            if time.monotonic() > end:
                raise Refused(f"waited {seconds:g} s in vain for {what}")
            time.sleep(LOOK_SECONDS)
        return value

    def __enter__(self) -> Cast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.running():
                process.kill()


def _whole_json(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}\n")
