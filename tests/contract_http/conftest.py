"""What the tests of the wire contract share: the contract itself, as written in specs/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


@pytest.fixture(scope="session")
def specs() -> Path:
    """The folder of the specifications."""
    return ROOT / "specs"


@pytest.fixture(scope="session")
def contract(specs: Path) -> dict:
    """specs/openapi.yaml, parsed."""
    return yaml.safe_load((specs / "openapi.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def operations(contract: dict) -> dict[tuple[str, str], dict]:
    """Every operation of the contract by (METHOD, path)."""
    return dict(_operations(contract))


def _operations(contract: dict) -> Iterator[tuple[tuple[str, str], dict]]:
    for path, item in contract["paths"].items():
        for method in METHODS & item.keys():
            yield (method.upper(), path), item[method]
