"""Real workers for the tests that run processes: programs with a few handlers, steered by files."""

from __future__ import annotations

import errno
import json
import os
import pty
import subprocess
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

from eventjobs import Client
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, python

# A job's payload says what its handler does. Handlers leave `started-ID` behind, and `go` lets them go on.
PROGRAM = '''
import asyncio, json, sys, time
from pathlib import Path

import structlog

from eventjobs import GiveUp, Worker

structlog.configure(processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()])
url, name, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
here = Path.cwd()
worker = Worker(url, name=name, **settings)


def started(job):
    (here / f"started-{name}-{job.id}").touch()


@worker.handler("answer")
async def answer(job):
    return {"worker": name, "token": job.token, "payload": job.payload}


@worker.handler("answer-in-thread")
def answer_in_thread(job):
    return {"worker": name, "token": job.token, "payload": job.payload}


@worker.handler("hold")
async def hold(job):
    started(job)
    while not (here / "go").exists():
        await asyncio.sleep(0.02)
    return name


@worker.handler("hold-for-ever")
async def hold_for_ever(job):
    started(job)
    await asyncio.sleep(3600)


@worker.handler("hold-a-thread-for-ever")
def hold_a_thread_for_ever(job):
    started(job)
    time.sleep(3600)


@worker.handler("block")
async def block(job):
    started(job)
    time.sleep(3600)


@worker.handler("first-attempt-takes")
async def first_attempt_takes(job):
    """The first attempt takes a while and then returns, fails or goes on, as the payload says."""
    started(job)
    if job.attempt == 1:
        await asyncio.sleep(job.payload["seconds"])
        if job.payload["then"] == "fail":
            raise RuntimeError("late")
    return name


@worker.handler("fail")
async def fail(job):
    if job.attempt <= job.payload["failures"]:
        raise RuntimeError(f"attempt {job.attempt}")
    return job.attempt


@worker.handler("give-up")
def give_up(job):
    if not (here / "go").exists():
        raise GiveUp("not now, not ever")
    return "now"


worker.run()
print(json.dumps({"event": "run_returned"}), flush=True)
'''


class WorkerProcess(ProgramProcess):
    """A worker in a process of its own."""

    def __init__(self, script: Path, url: str, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        super().__init__(python(script, url, name, json.dumps(settings)), script.parent / f"{name}.log")

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event so far."""
        whole = [line for line in self.text().splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
        return [line for line in map(json.loads, whole) if line.get("event") == event]

    def has_started(self, job_id: str) -> bool:
        """Whether a handler of this worker has started with the job."""
        return (self.log.parent / f"started-{self.name}-{job_id}").exists()


@pytest.fixture
def start_worker(tmp_path: Path, coordinator: CoordinatorProcess) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts a worker of the test's coordinator: start_worker(name, **settings). They all end with the test."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    with ExitStack() as stack:

        def start(name: str, **settings: Any) -> WorkerProcess:
            return stack.enter_context(WorkerProcess(script, coordinator.url, name, settings))

        yield start


@pytest.fixture
async def client(coordinator: CoordinatorProcess) -> AsyncIterator[Client]:
    """A client of the test's coordinator."""
    async with Client(coordinator.url) as client:
        yield client


@pytest.fixture
def history(client: Client) -> Callable[..., Any]:
    """What happened to a job, from the log: await history(job_id) -> [(type, worker or "", token or 0), …]."""

    async def read(job_id: str) -> list[tuple[str, str]]:
        return [(event.type, event.actor.id) for event in await client.history(job_id)]

    return read


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Asks again until the answer is true: await eventually(async function, what, seconds=30)."""
    import asyncio

    async def ask(look: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
        async def until() -> Any:
            while True:
                found = look()
                found = await found if asyncio.iscoroutine(found) else found
                if found:
                    return found
                await asyncio.sleep(0.02)

        try:
            return await asyncio.wait_for(until(), seconds)
        except TimeoutError:
            raise AssertionError(f"waited {seconds:g} s in vain for {what}") from None

    return ask


ON_A_TERMINAL_SECONDS = 60


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """What a program shows on a terminal of so many columns: on_terminal(arguments, columns, **environment).

    With `output`, a file, only standard error is the terminal.
    """

    def run(arguments: list[str], columns: int, output: IO[bytes] | None = None, **environment: str) -> str:
        controller, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (50, columns))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output or terminal,
            stderr=terminal,
            env={**kept, "TERM": "xterm-256color", "TZ": "UTC", **environment},
        )
        os.close(terminal)
        try:
            shown = b"".join(iter(lambda: _read(controller), b""))
            assert process.wait(ON_A_TERMINAL_SECONDS) == 0, shown
        finally:
            process.kill()
            process.wait()
            os.close(controller)
        return shown.decode().replace("\r\n", "\n")

    return run


def _read(controller: int) -> bytes:
    """What came next from the programs on a terminal; nothing when the last one has closed it."""
    try:
        return os.read(controller, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # as Linux says it
            return b""
        raise
