"""The form of the tests themselves: each can fail, and none waits for a fixed time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

SLEEP_SECONDS_MAX = 0.2
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CHECKS = {"raises", "warns", "fail", "run_state_machine_as_test", "call_and_validate", "validate_response"}


def written_tests(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The test functions of a module, at its top and in its classes."""
    return (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and node.name.startswith("test_"))


def asserts(node: ast.AST, helpers: set[str]) -> bool:
    """Whether code can fail a test: an assert, pytest.raises and its like, or a helper that can."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assert) or (isinstance(each, ast.Raise) and "AssertionError" in ast.dump(each)):
            return True
        if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in CHECKS | helpers:
            return True
    return False


def asserting_helpers(tree: ast.AST) -> set[str]:
    """The names of a module's functions that assert, themselves or through one another."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and not node.name.startswith("test_")]
    found: set[str] = set()
    while grown := {f.name for f in functions if f.name not in found and asserts(f, found)}:
        found |= grown
    return found


def idle_tests(tree: ast.AST, shared: set[str] = frozenset()) -> list[str]:
    """The tests that cannot fail by an assertion, their own, or one of a helper in the file or among the shared."""
    helpers = asserting_helpers(tree) | shared
    return [test.name for test in written_tests(tree) if not asserts(test, helpers) and not is_fixture(test)]


def is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a fixture that merely is named like a test."""
    return any("fixture" in ast.unparse(each) for each in node.decorator_list)


def long_sleeps(tree: ast.Module) -> list[int]:
    """The lines that sleep for a constant time of 0.2 seconds or more; constants of the module are looked up."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "sleep" and node.args:
            given = node.args[0]
            seconds = given.value if isinstance(given, ast.Constant) else constants.get(ast.unparse(given), 0)
            if isinstance(seconds, int | float) and seconds >= SLEEP_SECONDS_MAX:
                lines.append(node.lineno)
    return lines


def fixtures_of(module, suite: list) -> list:
    """The conftest modules that a test module sees."""
    return [m for m in suite if m.path.name == "conftest.py" and module.path.is_relative_to(m.path.parent)]


def test_every_test_can_fail(suite, product):
    """Each test function asserts something, itself or through a helper of its file, its folders or the product."""
    shipped = set().union(*(asserting_helpers(m.tree) for m in product if m.name.startswith("eventjobs.testing")))
    idle = []
    for module in suite:
        shared = shipped.union(*(asserting_helpers(each.tree) for each in fixtures_of(module, suite)))
        idle += [f"{module.name}.{name}" for name in idle_tests(module.tree, shared)]
    assert idle == []


def test_no_test_waits_for_a_fixed_time(suite):
    """A test waits for the thing it needs, with a bound, and never sleeps and hopes. Virtual time may pass."""
    real = [m for m in suite if not any("virtual_time" in each.text for each in [m, *fixtures_of(m, suite)])]
    assert [f"{m.name}:{line}" for m in real for line in long_sleeps(m.tree)] == []


def test_every_test_file_is_collected(suite):
    """A file that holds tests is named so that pytest finds it, and no two tests of one scope share a name."""
    lost = [m.name for m in suite if any(written_tests(m.tree)) and not m.path.name.startswith(("test_", "conftest"))]
    assert lost == []
    for module in suite:
        names = [node.name for node in module.tree.body if isinstance(node, FUNCTIONS)]
        assert len(names) == len(set(names)), f"{module.name} defines a name twice"


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("def test_a():\n    f()", True),
        ("def test_a():\n    print(1 == 2)", True),
        ("def test_a():\n    assert f()", False),
        ("def test_a():\n    with pytest.raises(ValueError):\n        f()", False),
        ("def f():\n    g()\ndef g():\n    assert 1\ndef test_a():\n    f()", False),
        ("def test_a(job):\n    given(job).when(1).then(2)", False),
        ("def test_a(job):\n    given(job).when(1)", True),
    ],
)
def test_an_idle_test_is_found(text, idle):
    """A test without an assertion is told from one that has one."""
    assert idle_tests(ast.parse(text), {"then"}) == (["test_a"] if idle else [])


@pytest.mark.parametrize(
    ("text", "found"),
    [("time.sleep(1)", True), ("await asyncio.sleep(0.2)", True), ("await asyncio.sleep(0)", False)],
)
def test_a_long_sleep_is_found(text, found):
    """A fixed sleep is told from a yield of the loop."""
    assert bool(long_sleeps(ast.parse(f"async def f():\n    {text}"))) is found
    assert long_sleeps(ast.parse("PAUSE = 3\ntime.sleep(PAUSE)")) == [2]
