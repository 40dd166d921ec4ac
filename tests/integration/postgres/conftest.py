"""What the tests of the PostgreSQL engine share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventjobs.testing.postgres import OwnServer
from eventjobs.testing.processes import CoordinatorProcess


@pytest.fixture
def server() -> Iterator[OwnServer]:
    """A server that may be stopped and started."""
    own = OwnServer()
    own.start()
    yield own
    own.remove()


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[tuple[CoordinatorProcess, CoordinatorProcess]]:
    """Two coordinators over one database."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with (
        CoordinatorProcess(tmp_path / "first", store=postgres_url) as first,
        CoordinatorProcess(tmp_path / "second", store=postgres_url) as second,
    ):
        yield first, second
