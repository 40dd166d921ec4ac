"""What a user gets: the wheel holds the product and nothing else, and works away from the tree."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"eventjobs": "eventjobs", "eventjobs/projections": "projections", "eventjobs/tools": "tools"}
DATA = {"eventjobs/py.typed": "eventjobs/py.typed", "eventjobs/api/openapi.json": "eventjobs/api/openapi.json"}


def tree_files() -> dict[str, Path]:
    """Every file the wheel must hold, by its place in the wheel."""
    modules = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}": path
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    return modules | {inside: ROOT / path for inside, path in DATA.items()}


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Every file of the wheel that is not about the wheel itself."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def test_wheel_and_tree_agree(release):
    """The wheel holds exactly the modules of the tree and their data, byte for byte."""
    tree, wheel = tree_files(), wheel_files(release.wheel)
    assert set(wheel) == set(tree)
    assert [name for name, path in tree.items() if path.read_bytes() != wheel[name]] == []


def test_only_eventjobs_is_at_the_top(installed):
    """Beside its own description, the wheel puts one name into site-packages: users own the others."""
    names = {path.name for path in installed.site.iterdir() if path.suffix not in (".pth", ".dist-info")}
    assert names == {"eventjobs"}
    assert len(list(installed.site.glob("*.dist-info"))) == 1


def test_the_wheel_brings_one_program(installed):
    """The one command that is installed is eventjobs."""
    programs = {path.name for path in (installed.prefix / "bin").iterdir()}
    assert {name for name in programs if not name.startswith(("python", "activate", "Activate"))} == {"eventjobs"}


def test_the_licence_comes_along(release):
    """Wheel and source archive carry the licence's text."""
    text = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(release.wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/LICENSE"))
        assert archive.read(name) == text
    with tarfile.open(release.sdist) as archive:
        (member,) = (each for each in archive.getmembers() if each.name.endswith("/LICENSE"))
        assert archive.extractfile(member).read() == text


def test_the_source_archive_can_be_tested(release):
    """The source archive holds the tests, the specs, the documents and what `make test` needs."""
    with tarfile.open(release.sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    wanted = {"CHANGELOG.md", "Dockerfile", "Makefile", "README.md", "compose.yaml", "constraints.txt"}
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert (wanted | tests) - names == set()
    assert any(name.startswith("specs/") for name in names)


@pytest.mark.parametrize("command", [("eventjobs", "--help"), ("eventjobs", "serve", "--help")], ids=" ".join)
def test_the_command_works_from_an_empty_folder(run, command):
    """The installed command needs nothing of the tree."""
    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert "Usage: eventjobs" in done.stdout


def test_the_mapped_packages_can_be_imported(run, working):
    """What lies in folders of its own in the tree is below eventjobs once it is installed."""
    names = "eventjobs", "eventjobs.projections", "eventjobs.tools", "eventjobs.testing", "eventjobs.api"
    code = f"import sys, json, {', '.join(names)}; print(json.dumps([sys.modules[n].__file__ for n in {names}]))"
    done = run("python", "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert [path for path in json.loads(done.stdout) if not path.startswith(str(working.site))] == []


def test_the_interface_description_is_found_when_installed(run):
    """The installed coordinator can serve its OpenAPI document."""
    code = "import importlib.resources as r; print((r.files('eventjobs.api') / 'openapi.json').read_text())"
    done = run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["openapi"].startswith("3.")


def test_a_worker_loads_no_store(run):
    """An application that only runs jobs loads neither lmdb nor the coordinator."""
    code = "import sys, json, eventjobs; eventjobs.Worker, eventjobs.Client; print(json.dumps(sorted(sys.modules)))"
    done = run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    forbidden = ("lmdb", "eventjobs.store", "eventjobs.coordinator", "eventjobs.api", "eventjobs.projections")
    assert [name for name in loaded if name.startswith(forbidden)] == []
    assert "eventjobs.worker" in loaded
