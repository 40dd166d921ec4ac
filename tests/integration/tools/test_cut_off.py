"""A store whose file was cut off is told of by every command that reads one: none is ended by it, or leaves a thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eventjobs.cli import exits
from eventjobs.testing import builders as b

RESTORE = ("restore",)
COMMANDS = (
    ("replay", "--data"),
    ("replay", "--at", "5", "--data"),
    ("export", "--out", "made", "--data"),
    ("backup", "made", "--data"),
    ("backup", "made", "--quick", "--data"),
    RESTORE,
    ("head", "--data"),
    ("prove", "1", "--data"),
    ("history", b.an_id(1), "--data"),
    ("why", b.an_id(1), "--data"),
    ("rebuild", "--check", "--data"),
    ("rebuild", "--data"),
    ("compact", "--data"),
)


def run(arguments: tuple[str, ...], where: Path) -> subprocess.CompletedProcess:
    """A command in a process of its own, as a damaged file could end it."""
    command = [sys.executable, "-m", "eventjobs", *arguments]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, check=False)


def of(command: tuple[str, ...], data: Path) -> tuple[str, ...]:
    """The command on a store, which most name at their end."""
    return ("restore", str(data / "data.mdb"), "--data", "made") if command == RESTORE else (*command, str(data))


@pytest.fixture
def cut(data: Path) -> Path:
    """The store without the second half of its file."""
    file = data / "data.mdb"
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size // 2 // 4_096 * 4_096)
    return data


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_told(cut, tmp_path, command):
    """That it was cut off, and what tells more, with the exit code of damage; nothing is left behind."""
    before = (cut / "data.mdb").read_bytes()
    (tmp_path / "where").mkdir()
    done = run(of(command, cut), tmp_path / "where")
    assert done.returncode == exits.REFUSED, done
    assert "is damaged" in done.stderr and "eventjobs verify" in done.stderr, done.stderr
    assert not list((tmp_path / "where").iterdir())
    assert (cut / "data.mdb").read_bytes() == before
    assert {path.name for path in cut.iterdir()} <= {"data.mdb", "lock.mdb", "coordinator.lock"}
