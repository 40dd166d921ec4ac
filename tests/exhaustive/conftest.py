"""What the searches saw is said at the end of the run: a search that saw nothing has proved nothing."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether the larger scopes are asked for."""
    return os.environ.get("EVENTJOBS_PROFILE") == "deep"


@pytest.fixture
def saw(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Called with a line about what a search saw (see tests/conftest.py, which says it in the end)."""
    return lambda line: record_property("seen", line)
