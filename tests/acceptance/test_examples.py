"""The workers in examples/ run as compose.yaml runs them, and do what they say."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from eventjobs import BlockingClient, Job
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, wait_for

ROOT = Path(__file__).parents[2]


@pytest.fixture
def client(coordinator: CoordinatorProcess, tmp_path: Path) -> Iterator[BlockingClient]:
    """A client of a coordinator whose one worker is the service of compose.yaml."""
    shutil.copytree(ROOT / "examples", tmp_path, dirs_exist_ok=True)
    service = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["worker"]
    environment = dict.fromkeys(service["environment"], coordinator.url)
    command = [sys.executable, "-W", "error", "-m", "eventjobs", *service["command"]]
    with (
        ProgramProcess(command, tmp_path / "worker.log", environment) as worker,
        BlockingClient(coordinator.url) as made,
    ):
        worker.wait_for_text("worker_started")
        yield made


def finished(client: BlockingClient, job: Job) -> Job:
    """The job once it has ended."""

    def look() -> Job | None:
        found = client.job(job.id)
        return found if found.finished_at else None

    return wait_for(look, f"the end of {job.kind}")


def test_a_coroutine_greets(client):
    """What the handler returns is the result."""
    job = finished(client, client.enqueue("greet", {"name": "Ada"}))
    assert (job.state, job.result) == ("succeeded", "Hello, Ada!")


def test_a_plain_function_digests(client):
    """A function that runs in a thread does as well."""
    job = finished(client, client.enqueue("digest", {"text": "é"}))
    assert (job.state, job.result) == ("succeeded", {"sha256": hashlib.sha256("é".encode()).hexdigest()})


def test_a_job_that_cannot_be_done_ends_with_its_error(client):
    """What the handler raises is the job's error."""
    job = finished(client, client.enqueue("greet", {}, max_attempts=1))
    assert (job.state, job.error.type) == ("dead", "KeyError")
