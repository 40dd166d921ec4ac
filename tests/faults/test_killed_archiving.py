"""A process that moves records into the archive is killed, at any of its steps: nothing is lost, and it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify

JOBS = 900
MAP_SIZE = 64 << 20

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from eventjobs.projections import READ_MODELS
    from eventjobs.store.lmdb import open_engine

    STEPS = {"mkdir", "write", "flush", "fsync", "replace", "rename", "unlink", "commit"}
    count = 0

    def move(directory, at):
        '''Move everything; at the `at`th step, before or after it, the process is killed.'''
        engine = open_engine(Path(directory), READ_MODELS, 64 << 20, force_filesystem=True)

        def watch(frame, event, function):
            global count
            if event in ("c_call", "c_return") and function.__name__ in STEPS:
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        more = True
        while more:
            more = engine.seal(2**62, lambda: None)
            while engine.empty():
                pass
        sys.setprofile(None)
        engine.close()

    directory, at = sys.argv[1:]
    move(directory, int(at))
    print(count)
    """
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store of four segments, none of which is sealed."""
    directory = tmp_path_factory.mktemp("filled") / "data"
    (directory / "archive").mkdir(parents=True)
    save_manifest(directory / "archive", Manifest(8))
    engine = open_engine(directory, READ_MODELS, MAP_SIZE, force_filesystem=True)
    driver = Driver(engine)
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(JOBS)])
    driver.lease(b.lease(now=b.at(5)), limit=JOBS // 4)
    engine.close()
    return directory


def run(directory, at: int) -> subprocess.CompletedProcess:
    program = [sys.executable, "-c", PROGRAM, str(directory), str(at)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)


def log_of(directory) -> tuple:
    """Head and records of a store, which opens, and which a verification finds sound."""
    assert verify(directory, None, False, lambda *_: None).outcome is Outcome.SOUND
    engine = open_engine(directory, READ_MODELS, MAP_SIZE, force_filesystem=True)
    with engine.read() as reader:
        found = reader.head(), [reader.record_text(position) for position in range(1, reader.head().size + 1)]
    engine.close()
    return found


def test_killed_at_any_step(filled, tmp_path, rounds):
    """What the log says is what it said, verify finds it sound, and the next run brings the work to its end."""
    whole = tmp_path / "whole"
    shutil.copytree(filled, whole)
    expected = log_of(filled)
    done = run(whole, 0)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 50
    names = sorted(os.listdir(whole / "archive"))
    assert len(names) == 5
    assert log_of(whole) == expected
    points = range(1, steps + 1, max(1, steps // (2 * rounds)))
    for number, at in enumerate(points):
        directory = tmp_path / f"killed-{number}"
        shutil.copytree(filled, directory)
        killed = run(directory, at)
        assert killed.returncode < 0, killed.stderr
        assert log_of(directory) == expected
        assert run(directory, 0).returncode == 0
        assert sorted(os.listdir(directory / "archive")) == names
        shutil.rmtree(directory)
