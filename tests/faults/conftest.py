"""What breaks in these tests: disks that are really full, and processes that are really killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROUNDS = {"quick": 3, "ci": 6, "deep": 40}
"""How often a process is killed in one test, by profile (see tests/conftest.py)."""


@pytest.fixture
def rounds() -> int:
    """How many rounds a test of faults is worth in this profile."""
    return ROUNDS[os.environ.get("EVENTJOBS_PROFILE", "quick")]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of a few bytes: a tmpfs, which only root may mount. (bytes) -> directory"""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        directory = tmp_path / "disk"
        directory.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
