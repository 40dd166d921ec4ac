"""What breaks in these tests: disks that are full or fail, clocks that jump, and processes that are killed."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import frozen

from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import open_engine
from eventjobs.testing.ledger import Crowd, check_integrity, check_ledger

ROUNDS = {"quick": 3, "ci": 6, "deep": 120}
"""How often a process is killed in one test, by profile (see tests/conftest.py)."""
SHIM_SOURCE = Path(__file__).with_name("shim.c")
SECOND = 1_000_000_000
"""In nanoseconds, as the shim counts."""


@pytest.fixture
def profile() -> str:
    """How hard the tests try."""
    return os.environ.get("EVENTJOBS_PROFILE", "quick")


@pytest.fixture
def rounds(profile: str) -> int:
    """How many rounds a test of faults is worth in this profile."""
    return ROUNDS[profile]


@pytest.fixture
def judge() -> Callable[[Crowd, Path], None]:
    """Holds the store of a coordinator that has ended against a crowd's ledger. (crowd, directory)"""

    def of(crowd: Crowd, directory: Path) -> None:
        engine = open_engine(directory, READ_MODELS, force_filesystem=True)
        try:
            with engine.read() as reader:
                check_ledger(crowd, reader)
                check_integrity(reader)
        finally:
            engine.close()

    return of


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes a file system of a few bytes: a tmpfs, which only root may mount. (bytes, below=None) -> directory"""
    mounted: list[Path] = []

    def mount(size: int, below: Path | None = None) -> Path:
        directory = (below or tmp_path) / "disk"
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


@frozen
class Failure:
    """A way to fail: how the first call and how those after it do, and how many altogether. See shim.c."""

    first: int
    others: int = 0
    failures: int = 1

    def is_no_space(self, kind: str) -> bool:
        """Whether a commit that met it at a call of this kind was certainly not done, for want of room."""
        return self.first == errno.ENOSPC and kind != "m"


DONE_HALF, DONE_ALL = -1, -2
FOR_EVER = 1_000_000

FAILURES = {
    "EIO": Failure(errno.EIO),
    "ENOSPC": Failure(errno.ENOSPC),
    "half": Failure(DONE_HALF),
    "done, then EIO": Failure(DONE_ALL),
    "EIO from then on": Failure(errno.EIO, errno.EIO, FOR_EVER),
    "ENOSPC from then on": Failure(errno.ENOSPC, errno.ENOSPC, FOR_EVER),
    "half, then EIO from then on": Failure(DONE_HALF, errno.EIO, FOR_EVER),
    "done, then EIO from then on": Failure(DONE_ALL, errno.EIO, FOR_EVER),
}


@pytest.fixture
def failures() -> dict[str, Failure]:
    """The ways to fail, by name."""
    return FAILURES


class Shim:
    """A library for other processes that makes their disk fail and their clock jump: see shim.c.

    A process started with `environment` is steered through the file while it runs, from here or from within.
    """

    FIELDS = ("clock_offset", "fail_at", "failures", "first", "others", "only", "calls", "failed")
    KINDS = 4096
    WORD = struct.Struct("=q")

    def __init__(self, library: Path, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(len(self.FIELDS) * self.WORD.size + self.KINDS))
        self.environment = {"LD_PRELOAD": str(library), "EVENTJOBS_SHIM": str(file)}
        with file.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)

    def close(self) -> None:
        self._map.close()

    def __getitem__(self, name: str) -> int:
        return self.WORD.unpack_from(self._map, self.FIELDS.index(name) * self.WORD.size)[0]

    def __setitem__(self, name: str, value: int) -> None:
        self.WORD.pack_into(self._map, self.FIELDS.index(name) * self.WORD.size, value)

    def arm(self, failure: Failure, number: int, only: str = "") -> None:
        """From now on the `number`th call fails, of all or only of those of one kind."""
        self.disarm()
        self["first"], self["others"], self["failures"] = failure.first, failure.others, failure.failures
        self["only"] = ord(only) if only else 0
        self["calls"] = self["failed"] = 0
        self["fail_at"] = number

    def disarm(self) -> None:
        """No more calls fail."""
        self["fail_at"] = 0

    @property
    def kinds(self) -> str:
        """What each call since the shim was armed was: w a write, s a flush, m a write of LMDB's head."""
        start = len(self.FIELDS) * self.WORD.size
        return self._map[start : start + min(self["calls"], self.KINDS)].decode()

    def set_clock(self, seconds: float) -> None:
        """Let the wall clock be so far ahead of what it is; behind, if negative."""
        self["clock_offset"] = round(seconds * SECOND)


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim, compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler to make the shim with (Debian: apt install gcc libc6-dev)")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    options = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *options, "-o", str(library), str(SHIM_SOURCE)], check=True)
    return library


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Iterator[Shim]:
    """A shim that changes nothing yet."""
    shim = Shim(shim_library, tmp_path / "shim")
    yield shim
    shim.close()
