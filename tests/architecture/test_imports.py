"""Who may import whom, and what the pure core may touch. The tables are the rules; every import in the tree is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

OURS = "eventjobs"
ANYTHING = {"*"}
ROOT_NAMES = ""  # `from eventjobs import __version__`: the top of the package, without a part

# Part -> the parts (or modules) it may import beside itself.
MAY_IMPORT = {
    ROOT_NAMES: {"client", "worker"},
    "domain": set(),
    "projections": {"domain"},
    "store": {"domain"},
    "coordinator": {"domain", "store.contract"},
    "api": {"coordinator", "domain", "projections", ROOT_NAMES},
    "client": {"domain.limits", ROOT_NAMES},
    "worker": {"client", "domain.limits", ROOT_NAMES},
    "__main__": {"cli"},
    "cli": ANYTHING,
    "tools": ANYTHING,
    "testing": ANYTHING,
}
NOBODY_IMPORTS = {"testing"}

# Library -> the parts that may use it; a part stands for all that lies below it.
MAY_USE = {
    "lmdb": {"store.lmdb"},
    "psycopg": {"store.postgres", "testing.postgres"},
    "cryptography": {"store.notes"},
    "sqlalchemy": {"client.sql"},
    "click": {"cli", "tools"},
    "aiohttp.web": {"api", "cli", "testing", "tools"},
}

# The pure core reaches nothing that differs between two runs: these and no other libraries.
PURE_PARTS = {"domain", "projections"}
PURE_LIBRARIES = {
    "__future__",
    "abc",
    "attrs",
    "attr",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "msgspec",
    "operator",
    "re",
    "string",
    "struct",
    "types",
    "typing",
}
IMPORTERS = {"import_module", "__import__"}
IMPURE_BUILTINS = {"open", "print", "input", "id", "hash", "exec", "eval", "__import__", "breakpoint"}


def imports(module) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name) of every import, at the top or inside a function; name is None for `import module`."""
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*parents, *([source] if source else [])])
            yield from ((node.lineno, source, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in IMPORTERS:
            for argument in node.args[:1]:
                known = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                yield node.lineno, argument.value if known else "(computed)", None


def part_of(name: str) -> str:
    """The part of the product a module belongs to: eventjobs.store.lmdb.engine -> store."""
    return name.split(".")[1] if "." in name else ROOT_NAMES


def within(name: str, allowed: set[str]) -> bool:
    """Whether a name (without `eventjobs.`) is one of the allowed ones or lies below one."""
    return any(name == each or (each and name.startswith(f"{each}.")) for each in allowed)


def reached(source: str, name: str | None, known: set[str]) -> str:
    """What an import reaches: `from eventjobs import store` reaches eventjobs.store."""
    return f"{source}.{name}" if name and f"{source}.{name}" in known else source


def broken_layers(modules: list) -> list[str]:
    """Each import of our own that the table does not allow."""
    known = {module.name for module in modules}
    faults = []
    for module in modules:
        part = part_of(module.name)
        if part not in MAY_IMPORT:
            faults.append(f"{module.name}: the table has no rule for {part}")
            continue
        for line, source, name in imports(module):
            if source.split(".")[0] != OURS:
                continue
            target = reached(source, name, known).removeprefix(OURS).removeprefix(".")
            if within(target, NOBODY_IMPORTS) and part not in NOBODY_IMPORTS:
                faults.append(f"{module.name}:{line} imports {target}, which is for tests")
            elif target == ROOT_NAMES and name is None:
                faults.append(f"{module.name}:{line} imports all of eventjobs; name what it needs")
            elif not (MAY_IMPORT[part] & ANYTHING or within(target, {part}) or within(target, MAY_IMPORT[part])):
                faults.append(f"{module.name}:{line} imports {target}")
    return faults


def broken_libraries(modules: list) -> list[str]:
    """Each use of a library outside the parts that may use it, and each computed import, which no table can see."""
    faults = []
    for module in modules:
        here = module.name.removeprefix(f"{OURS}.")
        for line, source, name in imports(module):
            full = f"{source}.{name}" if name else source
            faults += [
                f"{module.name}:{line} uses {library}"
                for library, parts in MAY_USE.items()
                if within(full, {library}) and not within(here, parts)
            ]
            if source == "(computed)" and part_of(module.name) != "cli":
                faults.append(f"{module.name}:{line} computes what it imports")
    return faults


def impurities(modules: list) -> list[str]:
    """Each thing in the pure parts that could differ between two runs."""
    faults = []
    for module in modules:
        if part_of(module.name) not in PURE_PARTS:
            continue
        for line, source, _ in imports(module):
            if source.split(".")[0] not in PURE_LIBRARIES | {OURS}:
                faults.append(f"{module.name}:{line} imports {source}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS:
                faults.append(f"{module.name}:{node.lineno} calls {node.func.id}")
            if isinstance(node, ast.AsyncFunctionDef | ast.Await):
                faults.append(f"{module.name}:{node.lineno} is asynchronous")
    return faults


def test_every_part_imports_only_what_it_may(product):
    """The layers of the design hold, inside functions too."""
    assert broken_layers(product) == []


def test_libraries_stay_in_their_parts(product):
    """An application that only runs jobs never loads the store's library; the command line's stays in the commands."""
    assert broken_libraries(product) == []


def test_the_pure_core_is_pure(product):
    """Domain and projections read no clock, draw no chance, and do no input or output."""
    assert impurities(product) == []


def test_every_rule_is_about_a_part_that_exists(product):
    """The table has no rule left over from a part that is gone, and misses none."""
    assert set(MAY_IMPORT) == {part_of(module.name) for module in product}


VIOLATIONS = [
    ("domain", "from eventjobs.store import contract", "imports store.contract"),
    ("domain", "from eventjobs import store", "imports store"),
    ("domain", "def f():\n    import eventjobs.store.contract as c", "imports store.contract"),
    ("domain", "import eventjobs", "imports all of eventjobs"),
    ("domain", "from ..store import contract", "imports store.contract"),
    ("coordinator", "from eventjobs.store.lmdb import engine", "imports store.lmdb.engine"),
    ("coordinator", "import importlib\nimportlib.import_module('eventjobs.store.lmdb')", "imports store.lmdb"),
    ("worker", "async def f():\n    from eventjobs.coordinator import replies", "imports coordinator.replies"),
    ("worker", "from eventjobs.domain import decide", "imports domain.decide"),
    ("client", "if False:\n    from eventjobs import projections", "imports projections"),
    ("api", "from eventjobs.store.lmdb import engine", "imports store.lmdb.engine"),
    ("cli", "from eventjobs.testing import clock", "which is for tests"),
    ("novelty", "", "no rule for novelty"),
]


@pytest.mark.parametrize(("part", "text", "fault"), VIOLATIONS, ids=[text or part for part, text, _ in VIOLATIONS])
def test_a_forbidden_import_is_found(tmp_path, read_modules, part, text, fault):
    """A violation planted in a tree of its own is named."""
    for name in ("", "store", "store/lmdb", "coordinator", "domain", "worker", "projections", "testing", part):
        (tmp_path / "tree" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name / "__init__.py").write_text("")
    for name in ("store/contract", "store/lmdb/engine", "coordinator/replies", "domain/decide", "testing/clock"):
        (tmp_path / "tree" / f"{name}.py").write_text("")
    assert not [each for each in broken_layers(read_modules(tmp_path, {OURS: "tree"})) if "no rule" not in each]
    (tmp_path / "tree" / part / "planted.py").write_text(text)
    faults = broken_layers(read_modules(tmp_path, {OURS: "tree"}))
    assert any(each.startswith(f"eventjobs.{part}.planted") and fault in each for each in faults), faults


@pytest.mark.parametrize("text", ["import lmdb", "def f():\n    from lmdb import Environment", "import click"])
def test_a_library_in_the_wrong_part_is_found(tmp_path, read_modules, text):
    """The store's library and the command line's cannot slip into a worker."""
    (tmp_path / "tree" / "worker").mkdir(parents=True)
    (tmp_path / "tree" / "worker" / "planted.py").write_text(text)
    assert len(broken_libraries(read_modules(tmp_path, {OURS: "tree"}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from datetime import datetime",
        "def f():\n    import random",
        "import uuid",
        "import os.path",
        "open('x')",
        "async def f(): ...",
    ],
)
def test_an_impurity_is_found(tmp_path, read_modules, text):
    """A clock, chance, or input and output planted in the core is named."""
    (tmp_path / "tree" / "domain").mkdir(parents=True)
    (tmp_path / "tree" / "domain" / "planted.py").write_text(text)
    assert len(impurities(read_modules(tmp_path, {OURS: "tree"}))) == 1
