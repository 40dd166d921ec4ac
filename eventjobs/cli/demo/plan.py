"""Which files the demo works on, and which of them make trouble. The same files always make the same plan."""

from __future__ import annotations

import hashlib
import os
import sysconfig
import zlib
from enum import StrEnum
from pathlib import Path

from attrs import frozen

NOT_THE_LIBRARY = frozenset({"__pycache__", "site-packages", "dist-packages"})
SLOW_FILES_MIN = 36
"""Jobs that take SLOW_SECONDS: enough to keep every slot of three workers busy for a while, with few files too."""
SLOW_SECONDS = 1.0
SLOW_EVERY, FLAKY_EVERY, DOOMED_EVERY = 20, 25, 50
SLOW_BYTES_MAX = 1 << 18
"""A slow job works on the event loop, so it takes no big file."""
FLAKY_FAILURES = 2
DOOMED_ATTEMPTS = 2
ATTEMPTS = 20
"""More than enough for a healthy job, however often a busy machine lets its lease run out."""


class Sort(StrEnum):
    """What happens to a job besides its work."""

    PLAIN = "plain"
    SLOW = "slow"
    FLAKY = "flaky"
    DOOMED = "doomed"


FAST_KIND, SLOW_KIND = "digest-file", "digest-file-slowly"


@frozen
class Task:
    """One file, one job."""

    path: str
    sort: Sort

    def request(self, broken: Path) -> dict:
        """The job as POST /jobs/batch takes it. A doomed job fails as long as the file `broken` exists."""
        payload: dict[str, object] = {"path": self.path}
        if self.sort is Sort.FLAKY:
            payload["failures"] = FLAKY_FAILURES
        if self.sort is Sort.DOOMED:
            payload["broken_while"] = str(broken)
        return {
            "kind": SLOW_KIND if self.sort is Sort.SLOW else FAST_KIND,
            "payload": payload,
            "max_attempts": DOOMED_ATTEMPTS if self.sort is Sort.DOOMED else ATTEMPTS,
            "retry_policy": {"type": "constant", "base": 0.2},
            "idempotency_key": self.path,
        }


def library_files() -> list[str]:
    """The files of the running Python's standard library, without byte code and installed packages, in order."""
    found = []
    for folder, folders, names in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = sorted(set(folders) - NOT_THE_LIBRARY)
        found.extend(filter(_usable, (os.path.join(folder, name) for name in sorted(names))))
    return found


def _usable(path: str) -> bool:
    """Whether the path is a file of its own that can be read, with a name that JSON can carry, and no static archive
    (that of the interpreter lies there as well, and is as big as all the rest)."""
    kept = os.path.isfile(path) and not os.path.islink(path) and not path.endswith(".a")
    return kept and os.access(path, os.R_OK) and path.isprintable()


def plan(paths: list[str]) -> list[Task]:
    """A task for each path, trouble spread evenly."""
    every = max(1, min(SLOW_EVERY, len(paths) // SLOW_FILES_MIN))
    return [Task(path, _sort(number, path, every)) for number, path in enumerate(paths)]


def _sort(number: int, path: str, slow_every: int) -> Sort:
    if number % DOOMED_EVERY == DOOMED_EVERY // 2:
        return Sort.DOOMED
    if number % FLAKY_EVERY == FLAKY_EVERY // 2:
        return Sort.FLAKY
    if number % slow_every == 0 and os.path.getsize(path) <= SLOW_BYTES_MAX:
        return Sort.SLOW
    return Sort.PLAIN


def work(path: str) -> dict[str, object]:
    """What a job does: read the file, hash it, compress it. The audit does it again, on its own."""
    content = Path(path).read_bytes()
    return {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "compressed_bytes": len(zlib.compress(content)),
    }
