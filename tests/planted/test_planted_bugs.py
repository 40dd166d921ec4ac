"""Each of many small wrong edits is noticed by the test that is there for it.

The edits are data: `bugs/*.toml`. Each is made in a copy of the tree, never in the tree itself, and the tests that it
names are run on that copy: they must fail, and without the edit they must pass. An edit whose text is no longer in
the code, exactly once, fails too: it has to be kept in step with the code. One that survives is a hole in the tests.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
COPIED = {"eventjobs": "eventjobs", "projections": "eventjobs/projections", "tools": "eventjobs/tools"}
"""Where each folder lies in a copy, which has the layout of an installed eventjobs."""
COPIES = 2
SECONDS_MAX = 60
PASSED, FAILED = 0, 1
"""Exit codes of pytest. All others mean that the tests could not be run."""


@frozen
class Bug:
    """A wrong edit of a file, by exact texts, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    killed_by: tuple[str, ...]


class Copy:
    """A copy of the tree to plant bugs in, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        leave_out = shutil.ignore_patterns("__pycache__", "planted")
        for name, place in COPIED.items():
            shutil.copytree(ROOT / name, folder / place, ignore=leave_out)
        for name in ("tests", "specs", "examples"):
            shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy2(ROOT / name, folder / name)

    def place(self, file: str) -> Path:
        """Where a file of the tree is here."""
        top, _, rest = file.partition("/")
        return self._folder / COPIED[top] / rest

    def run(self, *tests: str) -> subprocess.CompletedProcess[str]:
        """Run tests on the copy. Bytecode is neither kept nor trusted: an edit may be as long as what it replaces."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "EVENTJOBS_PROFILE": "quick",
        }
        options = ("-x", "-q", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self._folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip

    def plant(self, bug: Bug) -> subprocess.CompletedProcess[str]:
        """Run the bug's tests with the bug in place, and take it out again."""
        place = self.place(bug.file)
        text = place.read_text(encoding="utf-8")
        place.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
        try:
            return self.run(*bug.killed_by)
        finally:
            place.write_text(text, encoding="utf-8")


def all_bugs() -> list[Bug]:
    """Every bug there is."""
    files = sorted(Path(__file__).with_name("bugs").glob("*.toml"))
    found = [each for file in files for each in tomllib.loads(file.read_text(encoding="utf-8"))["bug"]]
    return [Bug(**{**each, "killed_by": tuple(each["killed_by"])}) for each in found]


BUGS = {bug.name: bug for bug in all_bugs()}


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> queue.Queue[Copy]:
    """Copies that are free."""
    free: queue.Queue[Copy] = queue.Queue()
    for number in range(COPIES):
        free.put(Copy(tmp_path_factory.mktemp(f"copy{number}")))
    return free


@pytest.fixture(scope="module")
def runs(copies, request) -> dict[str, Future]:
    """The bugs that are asked for in this run, each planted in a copy; as many at a time as there are copies."""

    def planted(bug: Bug) -> subprocess.CompletedProcess[str]:
        copy = copies.get()
        try:
            return copy.plant(bug)
        finally:
            copies.put(copy)

    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    asked = [test.callspec.params["name"] for test in tests if test.originalname == "test_it_is_noticed"]
    with ThreadPoolExecutor(COPIES) as pool:
        yield {name: pool.submit(planted, BUGS[name]) for name in asked if is_in_step(BUGS[name])}
        pool.shutdown(cancel_futures=True)


def is_in_step(bug: Bug) -> bool:
    """Whether the text to be replaced is in its file, exactly once."""
    return (ROOT / bug.file).read_text(encoding="utf-8").count(bug.old) == 1 and bug.old != bug.new


def test_there_are_many_bugs_each_with_a_name_of_its_own():
    """The list is long, and no two bugs share a name."""
    assert len(BUGS) == len(all_bugs()) >= 30


def test_nothing_is_noticed_where_nothing_is_planted(copies):
    """Without a bug all of the named tests pass, and they run on the copy."""
    copy = copies.get()
    done = copy.run(*sorted({test for bug in BUGS.values() for test in bug.killed_by}))
    copies.put(copy)
    assert done.returncode == PASSED, done.stdout[-5_000:] + done.stderr


@pytest.mark.parametrize("name", BUGS)
def test_it_is_noticed(name, runs):
    """The named tests fail once the bug is in."""
    bug = BUGS[name]
    assert is_in_step(bug), f"the text to be replaced is not in {bug.file} exactly once; bring the bug up to date"
    done = runs[name].result()
    assert done.returncode == FAILED, f"this bug survives:\n{done.stdout[-3_000:]}{done.stderr}"
