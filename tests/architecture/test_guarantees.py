"""Every guarantee is held by tests that exist."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

GUARANTEES = 9


def named_tests(text: str) -> list[tuple[str, str]]:
    """(path, name) of every test a document names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def names_in(text: str) -> set[str]:
    """The names a module defines at its top: functions, classes, and what is assigned."""
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@pytest.fixture(scope="module")
def guarantees(root) -> dict[int, str]:
    """The sections of specs/invariants.md by their numbers."""
    document = (root / "specs" / "invariants.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\d+)\. ", document, flags=re.MULTILINE)
    return dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))


def test_every_guarantee_names_its_tests(guarantees):
    """The page has all nine, in order, and each names at least three tests."""
    assert list(guarantees) == list(range(1, GUARANTEES + 1))
    assert [number for number, section in guarantees.items() if len(named_tests(section)) < 3] == []


def test_every_test_that_is_named_exists(guarantees, root):
    """A test that is renamed or dropped is missed on the page of the guarantees."""
    missing = []
    for section in guarantees.values():
        for path, name in named_tests(section):
            file = root / path
            if not file.exists() or name not in names_in(file.read_text(encoding="utf-8")):
                missing.append(f"{path}::{name}")
    assert missing == []


def test_every_guarantee_says_what_tries_hardest_and_what_is_noticed(guarantees, root):
    """Each names folders or files of tests that exist, and at least three planted bugs that exist."""
    files = (root / "tests" / "planted" / "bugs").glob("*.toml")
    planted = {bug["name"] for file in files for bug in tomllib.loads(file.read_text(encoding="utf-8"))["bug"]}
    for number, section in guarantees.items():
        (tries,) = re.findall(r"^Tries hardest: (.*)\.$", section, flags=re.MULTILINE)
        assert all((root / path).exists() for path in re.findall(r"`([^`]+)`", tries)), number
        named = re.findall(r'^- "(.*)"$', section, flags=re.MULTILINE)
        assert len(named) >= 3 and set(named) <= planted, (number, set(named) - planted)


def test_a_name_that_is_not_there_is_found():
    """Tests are told from each other by their whole names; an assigned test class counts."""
    assert named_tests("- `tests/a/test_b.py::test_c`, `tests/a/test_b.py::TestD`") == [
        ("tests/a/test_b.py", "test_c"),
        ("tests/a/test_b.py", "TestD"),
    ]
    assert names_in("def test_c(): ...\nTestD = D.TestCase\nasync def test_e(): ...\n") == {"test_c", "TestD", "test_e"}
