"""The repository as a whole: it names no machine and no registry, and its set-up files agree with the tree."""

from __future__ import annotations

import os
import re

# Written so that no pattern matches its own text.
REGISTRIES = re.compile(r"pypi\.org|python[h]osted|npmjs\.|registry\.npm|deb\.debian")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|Users|root)/\w")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")


def lines_with(pattern, files, root) -> list[str]:
    """Each place where a text file has the pattern."""
    places = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = enumerate(text.split("\n"), 1)
        places += [f"{path.relative_to(root)}:{number}" for number, line in lines if pattern.search(line)]
    return places


def test_no_file_names_a_registry(files, root):
    """Where packages come from is the installer's setting, not the project's."""
    assert lines_with(REGISTRIES, files, root) == []


def test_no_file_names_a_machine(files, root):
    """No absolute path of somebody's machine is written down."""
    assert lines_with(MACHINE_PATHS, files, root) == []


def test_no_file_says_it_is_unfinished(files, root):
    """What is not done is not there; it is no note in the code."""
    assert lines_with(UNFINISHED, files, root) == []


def test_no_file_is_a_link(files):
    """The tree is what it shows: no symbolic links."""
    assert [path for path in files if path.is_symlink()] == []


def test_every_package_is_listed(product, settings):
    """The explicit list of packages is the packages of the tree, in order."""
    packages = sorted(module.name for module in product if module.is_package)
    assert settings["tool"]["setuptools"]["packages"] == packages
    folders = {module.path.parent for module in product}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_dependency_is_pinned_once(root, settings):
    """The constraints are exact versions without addresses, and name every library that the project asks for."""
    lines = [
        line
        for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    pinned = [normal(line.partition("==")[0]) for line in lines]
    assert len(pinned) == len(set(pinned))
    extras = settings["project"]["optional-dependencies"].values()
    asked = {normal(re.match(r"[\w.-]+", each)[0]) for each in sum(extras, settings["project"]["dependencies"])}
    assert asked - set(pinned) == set()


def normal(name: str) -> str:
    """A project's name in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_continuous_integration_runs_what_the_readme_says(root):
    """The script can be run, stops at the first failure, and calls the README's test command."""
    script = root / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in text
    assert "\nmake test\n" in text
    assert "make test" in (root / "README.md").read_text(encoding="utf-8")


def test_the_forbidden_is_found(tmp_path):
    """The patterns see what they look for."""
    bad = tmp_path / "bad.md"
    bad.write_text("see https://{}.org/x\nin /{}/me/x\n{}: more\n".format("pypi", "home", "TO" + "DO"))
    assert lines_with(REGISTRIES, [bad], tmp_path) == ["bad.md:1"]
    assert lines_with(MACHINE_PATHS, [bad], tmp_path) == ["bad.md:2"]
    assert lines_with(UNFINISHED, [bad], tmp_path) == ["bad.md:3"]
