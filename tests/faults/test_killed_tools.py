"""An offline program is killed at any of its steps: the store it works on is what it was, nothing half-made has the
name that was asked for, and the next run does the work and leaves nothing else behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Self

import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.lmdb import open_engine
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live, retain
from eventjobs.tools.backup.copying import copy_directory
from eventjobs.tools.source import open_source
from eventjobs.tools.transfer.export import export
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify

MAP_SIZE = 64 << 20
JOBS = 120

PROGRAM = textwrap.dedent(
    """
    import os, signal, sys

    import click

    from eventjobs.cli.main import cli
    from eventjobs.tools.backup import command  # loaded before the steps are counted
    from eventjobs.tools.transfer import command
    from eventjobs.tools.rebuild import command
    from eventjobs.store.lmdb import compact

    STEPS = {
        "mkdir", "rmdir", "truncate", "ftruncate", "write", "flush", "fsync", "replace", "rename", "unlink", "commit",
        "putmulti", "open",
    }
    count = 0

    def run(directory, at, arguments):
        '''Run a command; at the `at`th step, before or after it, the process is killed.'''

        def watch(frame, event, function):
            global count
            if event in ("c_call", "c_return") and function.__name__ in STEPS:
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        os.chdir(directory)
        sys.setprofile(watch)
        try:
            cli.main(arguments, standalone_mode=False)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
        sys.setprofile(None)
        print("steps", count)
        return code or 0

    arguments = sys.argv[1:]
    for line in sys.stdin:  # a directory and a step, for a child each, as loading all this takes longer than the work
        directory, at = line.rsplit(None, 1)
        child = os.fork()
        if child == 0:
            code = run(directory, int(at), arguments)
            sys.stdout.flush()
            os._exit(code)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    """
)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a store, part of its log in an archive, a backup and an export of it."""
    folder = tmp_path_factory.mktemp("place") / "folder"
    (folder / "data" / "archive").mkdir(parents=True)
    save_manifest(folder / "data" / "archive", Manifest(8))
    engine = open_engine(folder / "data", READ_MODELS, MAP_SIZE, force_filesystem=True)
    live(Driver(engine), JOBS)
    retain(Driver(engine), JOBS)
    while engine.seal(2**62, lambda: None) or engine.empty():
        pass
    assert engine.archive.end
    engine.close()
    copy_directory(folder / "data", folder / "b.mdb", lambda *_: None)
    with open_source(folder / "data") as source, (folder / "e.jsonl").open("wb") as stream:
        export(source, "eventjobs", stream, lambda *_: None)
    return folder


class Tool:
    """A command that is run in one folder after another."""

    def __init__(self, *arguments: str) -> None:
        program = [sys.executable, "-c", PROGRAM, *arguments]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=60)

    def run(self, folder: Path, at: int = 0) -> tuple[int, str]:
        """Its exit code, and all that it says; killed at the `at`th step. The last line has the number of steps."""
        self._process.stdin.write(f"{folder} {at}\n".encode())
        self._process.stdin.flush()
        said = []
        while not (line := self._process.stdout.readline().decode()).startswith("ended "):
            assert line, said
            said.append(line)
        return int(line.split()[1]), "".join(said)


def run(folder: Path, *arguments: str) -> int:
    with Tool(*arguments) as tool:
        return tool.run(folder)[0]


def digests(folder: Path, names: set[str]) -> dict[str, str]:
    """Of the files that a tool must leave alone."""
    files = [
        path for path in folder.rglob("*") if path.is_file() and path.suffix in (".mdb", ".jsonl", ".log", ".json")
    ]
    found = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {name: digest for name, digest in found.items() if name.split(os.sep)[0] in names}


def head_of(data: Path) -> tuple:
    """What the log is up to, of a store that a verification finds sound."""
    report = verify(data, None, False, lambda *_: None)
    assert report.outcome is Outcome.SOUND, report
    return report.size, report.root


TOOLS = {
    "backup": (("backup", "new.mdb", "--data", "data", "--quick"), "new.mdb"),
    "export": (("export", "--data", "data", "--out", "new.jsonl"), "new.jsonl"),
    "restore": (("restore", "b.mdb", "--data", "new", "--quick"), "new"),
    "restore until": (("restore", "data", "--data", "new", "--until", "200", "--quick"), "new"),
    "import": (("import", "e.jsonl", "--data", "new"), "new"),
    "rebuild": (("rebuild", "--data", "data"), None),
    "compact": (("compact", "--data", "data"), None),
}


QUICK = ("restore until", "import", "compact")


def test_killed_at_any_step(place, tmp_path, rounds, profile):
    """At steps from the first to the last; in the quick profile at one, of some of the tools."""
    there = set(os.listdir(place))
    before, head = digests(place, there), head_of(place / "data")
    for name in QUICK if profile == "quick" else TOOLS:
        arguments, made = TOOLS[name]
        with Tool(*arguments) as tool:
            whole = shutil.copytree(place, tmp_path / name / "whole")
            code, said = tool.run(whole)
            assert code == 0, said
            steps, files = int(said.split()[-1]), files_of(whole)
            assert steps > 10
            for number in range(1 if profile == "quick" else rounds):
                at = 1 + (2 * number + 1) * steps // (2 * rounds)
                folder = shutil.copytree(place, tmp_path / name / f"killed-{number}")
                assert tool.run(folder, at)[0] < 0, (name, at, steps)
                assert head_of(folder / "data") == head
                if made is not None:
                    assert digests(folder, there) == before
                code, said = tool.run(folder)
                if made is not None and code == 2:  # it was killed after all was done
                    assert "is there already" in said or "is not empty" in said
                    assert run(folder, "verify", made) == 0
                else:
                    assert code == 0, (name, at, steps, said)
                assert files_of(folder) == files
                assert head_of(folder / "data") == head
                shutil.rmtree(folder)


def files_of(folder: Path) -> set[str]:
    """All files, but those that only hold locks."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "lock.mdb"}
