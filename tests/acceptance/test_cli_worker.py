"""`eventjobs worker`: a program's Worker as a process, with the settings of the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from eventjobs import BlockingClient
from eventjobs.cli import exits
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, wait_for

PROGRAM = """
import asyncio

from eventjobs import Worker

worker = Worker("http://127.0.0.1:1", concurrency=10)
empty = Worker()


@worker.handler("double")
def double(job):
    return job.payload * 2


@worker.handler("wait")
async def wait(job):
    print("the handler waits", flush=True)
    await asyncio.sleep(3600)
"""

Start = Callable[..., ProgramProcess]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "eventjobs", "worker", *arguments]


@pytest.fixture
def start(coordinator: CoordinatorProcess, tmp_path: Path) -> Iterator[Start]:
    """Starts the program's worker against the test's coordinator; returns once it runs."""
    (tmp_path / "tasks.py").write_text(PROGRAM)
    started: list[ProgramProcess] = []

    def _start(*options: str) -> ProgramProcess:
        log = tmp_path / f"worker-{len(started)}.log"
        started.append(ProgramProcess(command("tasks:worker", "--url", coordinator.url, *options), log))
        started[-1].wait_for_text("worker_started")
        return started[-1]

    yield _start
    for process in started:
        process.kill()


@pytest.fixture
def client(coordinator: CoordinatorProcess) -> Iterator[BlockingClient]:
    with BlockingClient(coordinator.url) as made:
        yield made


def _json_lines(worker: ProgramProcess) -> list[str]:
    return [line for line in worker.text().splitlines() if line.startswith("{")]


def test_the_command_lines_settings_go_before_the_programs(start: Start, client: BlockingClient) -> None:
    """Address, name, queues and concurrency of the command line are used; the logs are JSON lines with the facts."""
    worker = start("--name", "w-1", "--queue", "fast", "--queue", "other", "--concurrency", "2")
    left = client.enqueue("double", 4, queue="slow")
    done = client.enqueue("double", 21, queue="fast")
    job = wait_for(lambda: (found := client.job(done.id)).state == "succeeded" and found, "the job to be done")
    assert job.result == 42
    assert client.job(left.id).state == "queued"
    worker.wait_for_text("job_completed")
    lines = [orjson.loads(line) for line in worker.text().splitlines()]
    assert lines[0]["event"] == "worker_started"
    assert (lines[0]["worker"], lines[0]["queues"], lines[0]["concurrency"]) == ("w-1", ["fast", "other"], 2)
    (line,) = [line for line in lines if line["event"] == "job_completed"]
    assert (line["kind"], line["attempt"], line["token"], line["outcome"]) == ("double", 1, 1, "succeeded")
    assert job.id in line.values() and line["duration"] >= 0


def test_it_stops_in_good_order(start: Start, client: BlockingClient) -> None:
    """SIGTERM: what is left after the grace is given back unharmed, and the exit code is DONE."""
    worker = start("--grace-seconds", "0")
    job = client.enqueue("wait")
    wait_for(lambda: client.job(job.id).state == "running", "the job to run")
    assert worker.terminate() == exits.DONE
    given_back = client.job(job.id)
    assert (given_back.state, given_back.attempts) == ("queued", 0)


def test_a_canceled_job_is_no_fault_of_the_worker(start: Start, client: BlockingClient) -> None:
    """Its lease is over, says the log, because the job is canceled; nothing warns."""
    worker = start("--lease-seconds", "0.5")
    job = client.enqueue("wait")
    worker.wait_for_text("the handler waits")
    client.cancel(job.id)
    worker.wait_for_text("lease_over")
    (line,) = [line for line in map(orjson.loads, _json_lines(worker)) if line["event"] == "lease_over"]
    assert (line["level"], line["job_id"], line["reason"]) == ("info", job.id, "the job is canceled")


def test_a_quick_handler_takes_some_time_all_the_same(start: Start, client: BlockingClient) -> None:
    """Its duration is measured with a clock that is finer than the event loop's."""
    worker = start()
    for number in range(5):
        client.enqueue("double", number)
    wait_for(lambda: worker.text().count("job_completed") == 5, "the jobs to be done")
    lines = [line for line in map(orjson.loads, _json_lines(worker)) if line["event"] == "job_completed"]
    assert all(line["duration"] > 0 for line in lines)


def test_a_second_signal_ends_it_at_once(start: Start, client: BlockingClient) -> None:
    """While it waits for handlers, another signal ends it, and the job is left to its lease."""
    worker = start("--grace-seconds", "3600")
    job = client.enqueue("wait")
    worker.wait_for_text("the handler waits")
    worker.send(signal.SIGINT)
    worker.wait_for_text("worker_stopping")
    (line,) = [line for line in map(orjson.loads, _json_lines(worker)) if line["event"] == "worker_stopping"]
    assert line["jobs"] == [f"wait {job.id}"]
    assert line["second_signal"] == "ends it at once; its jobs wait until their leases run out"
    worker.send(signal.SIGINT)
    assert worker.wait() == -signal.SIGINT
    assert client.job(job.id).state == "running"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tasks"], "does not look like MODULE:NAME"),
        (["absent:worker"], "there is no module 'absent'"),
        (["tasks.py:worker"], "did you mean tasks:worker?"),
        (["tasks:nothing"], "tasks:nothing is not there; tasks has tasks:worker, tasks:empty"),
        (["tasks:double"], "tasks:double is no Worker"),
        (["tasks:empty"], "has no handlers"),
        (["tasks:worker", "--concurrency", "0"], "'concurrency' must be >= 1"),
        (["tasks:worker", "--url", "localhost"], "is not an address"),
    ],
)
def test_what_cannot_run_is_wrong_usage(tmp_path: Path, arguments: list[str], words: str) -> None:
    """A target that is no worker, or settings out of bounds: a clear word and USAGE."""
    (tmp_path / "tasks.py").write_text(PROGRAM)
    done = subprocess.run(command(*arguments), cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == exits.USAGE, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import no_such_library\n", "no_such_library"),
        ("from helper import worker\n", "ZeroDivisionError"),
        ("def worker(:\n", "SyntaxError"),
        ("from eventjobs import Worker\nworker = Worker(queues='fetch')\n", "queues is a list of names"),
    ],
)
def test_a_broken_program_shows_where(tmp_path: Path, program: str, words: str) -> None:
    """An error of the program itself shows the program's own lines, and not how they came to be read."""
    (tmp_path / "tasks.py").write_text(program)
    (tmp_path / "helper.py").write_text("worker = 1 / 0\n")
    done = subprocess.run(command("tasks:worker"), cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == exits.REFUSED
    assert done.stderr.startswith("eventjobs: 'tasks' cannot be imported\nTraceback (most recent call last):\n") or (
        words == "SyntaxError"
    )
    assert "tasks.py" in done.stderr and words in done.stderr
    assert "importlib" not in done.stderr and "click" not in done.stderr and "cli/worker.py" not in done.stderr
