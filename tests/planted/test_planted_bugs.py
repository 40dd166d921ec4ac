"""Each of many small wrong edits is noticed by the test that is there for it.

The edits are data: `bugs/*.toml`. Each is made in a copy of the tree, never in the tree itself, and the tests that it
names are run on that copy: they must fail, and without the edit they must pass. An edit whose text is no longer in
the code, exactly once, fails too: it has to be kept in step with the code. One that survives is a hole in the tests.
"""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("runner.py")
COPIED = {"eventjobs": "eventjobs", "projections": "eventjobs/projections", "tools": "eventjobs/tools"}
"""Where each folder lies in a copy, which has the layout of an installed eventjobs."""
OPTIONS = ("-x", "-q", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")
PASSED, FAILED, NOT_RUN = 0, 1, 70
"""Exit codes of pytest. All others mean that the tests could not be run; see runner.py for one beside pytest's."""


@frozen
class Bug:
    """A wrong edit of a file, by exact texts, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    killed_by: tuple[str, ...]
    in_setup: bool = False
    """Whether it is an assertion in what prepares these tests that notices, and not one in their own bodies."""


class Copy:
    """A copy of the tree to plant bugs in, one at a time, and a process that runs tests on it (see runner.py).

    Bytecode is held against the text it was made from, not against its time and size: an edit can leave both.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._output = folder, folder / "output"
        leave_out = shutil.ignore_patterns("__pycache__", "planted")
        for name, place in COPIED.items():
            shutil.copytree(ROOT / name, folder / place, ignore=leave_out)
        for name in ("tests", "specs", "examples"):
            shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy2(ROOT / name, folder / name)
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        assert compileall.compile_dir(folder / "eventjobs", quiet=1, invalidation_mode=checked)
        settings = {
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "EVENTJOBS_PROFILE": "quick",
        }
        self._runner = subprocess.Popen(
            [sys.executable, "-P", RUNNER], cwd=folder, env={**os.environ, **settings},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        self._runner.communicate()

    def place(self, file: str) -> Path:
        """Where a file of the tree is here."""
        top, _, rest = file.partition("/")
        return self._folder / COPIED[top] / rest

    def run(self, *tests: str) -> tuple[int, str]:
        """Run tests on the copy: pytest's exit code, and what it printed."""
        request = {"arguments": [*OPTIONS, *tests], "output": str(self._output)}
        self._runner.stdin.write(json.dumps(request) + "\n")
        self._runner.stdin.flush()
        code = int(self._runner.stdout.readline())
        return code, self._output.read_text(encoding="utf-8", errors="replace")

    def plant(self, bug: Bug) -> tuple[int, str]:
        """Run the bug's tests with the bug in place, and take it out again."""
        place = self.place(bug.file)
        text = place.read_text(encoding="utf-8")
        place.write_text(edited(bug, text), encoding="utf-8")
        try:
            return self.run(*bug.killed_by)
        finally:
            place.write_text(text, encoding="utf-8")


def edited(bug: Bug, text: str) -> str:
    """The file's text with the bug in it."""
    return text.replace(bug.old, bug.new)


def all_bugs() -> list[Bug]:
    """Every bug there is."""
    files = sorted(Path(__file__).with_name("bugs").glob("*.toml"))
    found = [each for file in files for each in tomllib.loads(file.read_text(encoding="utf-8"))["bug"]]
    return [Bug(**{**each, "killed_by": tuple(each["killed_by"])}) for each in found]


def by_file(bugs: list[Bug]) -> dict[str, list[str]]:
    """The tests that bugs name, by the file they are in."""
    files: dict[str, set[str]] = defaultdict(set)
    for test in (test for bug in bugs for test in bug.killed_by):
        files[test.partition("::")[0]].add(test)
    return {file: sorted(files[file]) for file in sorted(files)}


BUGS = {bug.name: bug for bug in all_bugs()}
KILLERS = by_file(all_bugs())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy of the tree, for the tests of this process."""
    made = Copy(tmp_path_factory.mktemp("copy"))
    yield made
    made.close()


def test_there_are_many_bugs_each_with_a_name_of_its_own():
    """The list is long, and no two bugs share a name."""
    assert len(BUGS) == len(all_bugs()) >= 30


@pytest.mark.parametrize("file", KILLERS)
def test_nothing_is_noticed_where_nothing_is_planted(file, copy):
    """Without a bug all of the named tests pass, and they run on the copy."""
    code, printed = copy.run(*KILLERS[file])
    assert code == PASSED, printed[-5_000:]


@pytest.mark.parametrize("name", BUGS)
def test_it_is_noticed(name, copy):
    """The named tests fail once the bug is in."""
    bug = BUGS[name]
    in_step = (ROOT / bug.file).read_text(encoding="utf-8").count(bug.old) == 1 and bug.old != bug.new
    assert in_step, f"the text to be replaced is not in {bug.file} exactly once; bring the bug up to date"
    compile(edited(bug, (ROOT / bug.file).read_text(encoding="utf-8")), bug.file, "exec")
    code, printed = copy.plant(bug)
    assert code == (NOT_RUN if bug.in_setup else FAILED), f"this bug survives (exit code {code}):\n{printed[-3_000:]}"
