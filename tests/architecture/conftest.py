"""What the tests of the code's form share: the repository's files, and the product's modules as syntax trees."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import field, frozen

ROOT = Path(__file__).parents[2]
GENERATED = {"build", "dist", "__pycache__"}


@frozen
class Module:
    """A module as it stands in the tree, under the name it is installed as."""

    name: str
    path: Path
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def _modules(root: Path, folders: dict[str, str]) -> list[Module]:
    found = {}
    for package, folder in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            inner = path.relative_to(root / folder).with_suffix("").parts
            name = ".".join((package, *inner)).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            found[name] = Module(name, path, text, ast.parse(text, str(path)))
    return list(found.values())


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        hidden = path.name.startswith(".") and path.is_dir() and path.name != ".ci"
        if hidden or path.name == ".git" or path.name in GENERATED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def settings(root: Path) -> dict:
    """pyproject.toml, parsed."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def folders(settings: dict) -> dict[str, str]:
    """Which folder is installed under which name."""
    return settings["tool"]["setuptools"]["package-dir"]


@pytest.fixture(scope="session")
def read_modules() -> Callable[[Path, dict[str, str]], list[Module]]:
    """Reads the modules of a tree: (root, {installed name: folder}) -> modules."""
    return _modules


@pytest.fixture(scope="session")
def product(root: Path, folders: dict[str, str]) -> list[Module]:
    """The product's modules."""
    return _modules(root, folders)


@pytest.fixture(scope="session")
def suite(root: Path) -> list[Module]:
    """The modules of the test suite."""
    return _modules(root, {"tests": "tests"})


@pytest.fixture(scope="session")
def files(root: Path) -> list[Path]:
    """Every file of the repository that was written by hand."""
    return list(_files(root))
