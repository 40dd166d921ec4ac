"""Backups of a coordinator under load, restored, and worked on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.testing.ledger import check_integrity, crowd_at
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, wait_for

LOAD = 20
"""Acknowledged requests before the backup."""


def eventjobs(directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eventjobs", *map(str, arguments)],
        cwd=directory, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def done(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("way", ["url", "data"])
async def test_all_that_was_acknowledged_before_is_in_a_backup_under_load(tmp_path, way):
    """What a crowd was told before the backup began is in the store restored of it, and a coordinator works on it."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    target = tmp_path / "backup.mdb"
    with CoordinatorProcess(tmp_path / "first") as coordinator:
        source = coordinator.url if way == "url" else coordinator.data
        async with crowd_at(coordinator.url) as crowd:
            await crowd.grown_by(LOAD)
            enqueued, completed = dict(crowd.enqueued), dict(crowd.completed)
            told = json.loads(
                done(await asyncio.to_thread(eventjobs, tmp_path, "backup", target, f"--{way}", source, "--json"))
            )
            await crowd.grown_by(10)
    restored = json.loads(done(eventjobs(tmp_path, "restore", target, "--data", "second/data", "--json")))
    assert (restored["size"], restored["root"]) == (told["size"], told["root"])
    engine = open_engine(tmp_path / "second" / "data", READ_MODELS, force_filesystem=True)
    with engine.read() as reader:
        check_integrity(reader)
        for key, job_id in enqueued.items():
            assert reader.job(job_id).spec.idempotency_key == key
        for job_id, (token, _) in completed.items():
            job = reader.job(job_id)
            assert (job.state, job.lease_token) == ("succeeded", token)
    engine.close()
    with CoordinatorProcess(tmp_path / "second") as coordinator:
        done(eventjobs(tmp_path, "enqueue", "k", "--url", coordinator.url))
        done(eventjobs(tmp_path, "backup", "again.mdb", "--url", coordinator.url))
        assert coordinator.stop() == 0
    done(eventjobs(tmp_path, "verify", "again.mdb"))


def test_what_stands_in_the_way_is_told(tmp_path):
    """Nobody there, no store there, a file there, no time: each with its exit code, and nothing is left."""
    nobody = eventjobs(tmp_path, "backup", "a.mdb", "--url", "http://127.0.0.1:1")
    assert nobody.returncode == 3 and "no coordinator answers" in nobody.stderr
    missing = eventjobs(tmp_path, "backup", "a.mdb", "--data", "missing")
    assert missing.returncode == 2 and "there is no store" in missing.stderr
    no_room = eventjobs(tmp_path, "backup", "missing/a.mdb", "--data", "missing")
    assert no_room.returncode == 2 and "No such file or directory" in no_room.stderr
    (tmp_path / "b.mdb").write_text("mine")
    there = eventjobs(tmp_path, "backup", "b.mdb", "--data", "missing")
    assert there.returncode == 2 and "is there already" in there.stderr
    point = eventjobs(tmp_path, "restore", "b.mdb", "--data", "new", "--until", "yesterday")
    assert point.returncode == 2 and "must be a position of the log, or a time" in point.stderr
    foreign = eventjobs(tmp_path, "restore", "b.mdb", "--data", "new")
    assert foreign.returncode == 2 and "is not a store of eventjobs" in foreign.stderr
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("b.mdb", "mine")]


def test_a_killed_backup_leaves_nothing_under_its_name(tmp_path):
    """Killed in the middle there is no target, and the next run is not held up."""
    with CoordinatorProcess(tmp_path) as coordinator:
        lines = "".join(f"{number}\n" for number in range(300))
        enqueue = [sys.executable, "-m", "eventjobs", "enqueue", "k", "--lines", "--url", coordinator.url]
        subprocess.run(enqueue, input=lines, text=True, check=True, capture_output=True)
        target, partial = tmp_path / "b.mdb", tmp_path / "b.mdb.partial"
        arguments = [sys.executable, "-m", "eventjobs", "backup", str(target), "--url", coordinator.url]
        with ProgramProcess(arguments, tmp_path / "backup.log") as program:
            wait_for(lambda: partial.exists() or target.exists(), "the backup to begin")
            program.kill()
        if not target.exists():
            assert partial.exists()
            done(eventjobs(tmp_path, "backup", target, "--url", coordinator.url))
        assert target.exists() and not partial.exists()
