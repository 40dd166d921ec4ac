"""Backups, restores and rebuilds on a disk that is full: said so, nothing left behind, and the original as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.processes import CoordinatorProcess

DISK = 1 << 20
LARGE = b.content('"' + "x" * 700_000 + '"')


@pytest.fixture
def store(tmp_path) -> Path:
    """The directory of a store that the small disk has no room for."""
    engine = open_engine(tmp_path / "data", READ_MODELS, 64 << 20, force_filesystem=True)
    Driver(engine).execute(*[b.enqueue(b.an_id(number), payload=LARGE) for number in range(1, 5)])
    engine.close()
    return tmp_path / "data"


def refused(*arguments: object) -> str:
    """What a command says that cannot be done."""
    done = subprocess.run(
        [sys.executable, "-m", "eventjobs", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_backup_that_does_not_fit_leaves_nothing(store, small_disk):
    """From the directory and from a coordinator; the next one, where there is room, is taken."""
    disk = small_disk(DISK)
    before = (store / "data.mdb").read_bytes()
    assert "there is no room" in refused("backup", disk / "b.mdb", "--data", store)
    assert (store / "data.mdb").read_bytes() == before
    with CoordinatorProcess(store.parent) as coordinator:
        assert "the disk is full" in refused("backup", disk / "b.mdb", "--url", coordinator.url)
        assert os.listdir(disk) == []
        taken = [sys.executable, "-m", "eventjobs", "backup", str(store.parent / "b.mdb"), "--url", coordinator.url]
        assert subprocess.run(taken, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("until", [(), ("--until", "4")], ids=["whole", "until"])
def test_a_restore_that_does_not_fit_leaves_no_directory(store, small_disk, until):
    """However it is made."""
    disk = small_disk(DISK)
    before = (store / "data.mdb").read_bytes()
    said = refused("restore", store, "--data", disk / "new", *until)
    assert "no room" in said or "disk" in said
    assert os.listdir(disk) == []
    assert (store / "data.mdb").read_bytes() == before
