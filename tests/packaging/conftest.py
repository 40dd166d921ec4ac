"""The project built as it is released, and installed where nothing of the tree can be seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

ROOT = Path(__file__).parents[2]
MADE = (".git", ".venv*", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info", "__pycache__")
BUILD_SECONDS = 120
RUN_SECONDS = 60


@frozen
class Release:
    """The two archives a release consists of."""

    wheel: Path
    sdist: Path


@frozen
class Installation:
    """An environment into which the wheel was installed. `others` are the files that pip put outside site-packages."""

    prefix: Path
    site: Path

    def run(self, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, without the settings of the running one."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EVENTJOBS_"))}
        program = str(self.prefix / "bin" / command[0])
        return subprocess.run(
            [program, *command[1:]], cwd=folder, env=clean, capture_output=True, text=True, timeout=RUN_SECONDS
        )


def _checked(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Source archive and wheel; the wheel is built from the source archive, so that this one is whole too."""
    folder = tmp_path_factory.mktemp("release")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*MADE))
    _checked(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), cwd=folder / "tree")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Release(wheel, sdist)


@pytest.fixture(scope="session")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A new environment with the wheel in it and nothing else."""
    prefix = tmp_path_factory.mktemp("installed")
    _checked(sys.executable, "-m", "venv", "--without-pip", str(prefix), cwd=prefix)
    pip = (sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "--disable-pip-version-check")
    _checked(*pip, "install", "--no-deps", "--no-index", "--no-compile", str(release.wheel), cwd=prefix)
    site = prefix / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    return Installation(prefix, site)


@pytest.fixture(scope="session")
def working(installed: Installation) -> Installation:
    """The same environment with the dependencies of the running one in sight (but not its own eventjobs)."""
    (installed.site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return installed


@pytest.fixture
def run(working: Installation, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of the installation in an empty folder."""
    return lambda *command: working.run(*command, folder=tmp_path)
