"""The form of the product's modules: size, names, docstrings, and exports that are true."""

from __future__ import annotations

import ast
import importlib
import statistics
import sys

LINES_MAX = 500
LINES_MEDIAN_MAX = 150
FUNCTION_LINES_MAX = 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def public_definitions(tree: ast.Module) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The classes and functions at the top of a module whose names do not start with an underscore."""
    return [n for n in tree.body if isinstance(n, (ast.ClassDef, *FUNCTIONS)) and not n.name.startswith("_")]


def is_more_than_a_choice_of_imports(node: ast.stmt) -> bool:
    """Whether a statement tries something else than to import."""
    return isinstance(node, ast.Try) and any(not isinstance(each, (ast.Import, ast.ImportFrom)) for each in node.body)


def test_no_module_is_two_things(product, suite):
    """No module of product or tests passes 500 lines."""
    assert [f"{m.name}: {m.lines} lines" for m in product + suite if m.lines > LINES_MAX] == []


def test_modules_are_short_as_a_rule(product):
    """Half of the modules that hold code are under 150 lines."""
    assert statistics.median(m.lines for m in product if m.lines > 3) < LINES_MEDIAN_MAX


def test_functions_fit_a_screen(product, suite):
    """No function is longer than 60 lines."""
    long = [
        f"{m.name}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for m in product + suite
        for node in ast.walk(m.tree)
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_module_is_named_like_a_standard_one(product):
    """No file or folder of the product has the name of a module of the standard library."""
    parts = {part for module in product for part in module.name.split(".")}
    assert parts & sys.stdlib_module_names == set()


def test_every_module_says_what_it_is(product, suite):
    """Each module starts with a docstring."""
    assert [m.name for m in product + suite if not ast.get_docstring(m.tree)] == []


def test_every_public_class_and_function_says_what_it_means(product):
    """Each public name at the top of a module of the product has a docstring."""
    bare = [
        f"{m.name}.{node.name}" for m in product for node in public_definitions(m.tree) if not ast.get_docstring(node)
    ]
    assert bare == []


def test_exports_are_true(product):
    """Where a module lists what it exports, every name is there, once."""
    for module in product:
        loaded = importlib.import_module(module.name) if "__all__" in module.text else None
        names = getattr(loaded, "__all__", [])
        assert len(names) == len(set(names)), module.name
        assert [name for name in names if not hasattr(loaded, name)] == [], module.name


def test_importing_a_module_does_nothing(product):
    """No module of the product runs a loop, opens a file, or ends the process when it is imported."""
    busy = [
        f"{m.name}:{node.lineno}"
        for m in product
        for node in m.tree.body
        if isinstance(node, ast.For | ast.While | ast.With | ast.Raise) or is_more_than_a_choice_of_imports(node)
    ]
    assert busy == []
