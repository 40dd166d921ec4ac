"""The demo's plan: real files, trouble for some, the same every time."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from pathlib import Path

import pytest

from eventjobs.cli.demo.plan import SLOW_FILES_MIN, Sort, library_files, plan, work


@pytest.mark.parametrize("count", [100, 300, 1_000])
def test_every_sort_of_trouble_is_there(count: int) -> None:
    """Few files or many: each sort is there, and enough slow jobs to catch a worker at one."""
    tasks = plan(library_files()[:count])
    assert len(tasks) == count
    sorts = Counter(task.sort for task in tasks)
    assert sorts[Sort.SLOW] >= SLOW_FILES_MIN * 2 // 3
    assert all(sorts[sort] >= 2 for sort in Sort)
    assert tasks == plan(library_files()[:count])


def test_the_library_has_well_over_a_thousand_files() -> None:
    """The files are real, each named once, and none belongs to an installed package or is byte code."""
    files = library_files()
    assert len(files) == len(set(files)) > 1_000
    assert not [path for path in files if "site-packages" in path or path.endswith(".pyc")]


def test_the_work_is_hash_and_size(tmp_path: Path) -> None:
    """SHA-256 of the content, its size, and its size when compressed."""
    file = tmp_path / "a.py"
    file.write_bytes(b"x" * 1000)
    assert work(str(file)) == {
        "sha256": hashlib.sha256(b"x" * 1000).hexdigest(),
        "bytes": 1000,
        "compressed_bytes": len(zlib.compress(b"x" * 1000)),
    }
