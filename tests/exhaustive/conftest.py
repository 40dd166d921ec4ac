"""What the searches saw is said at the end of the run: a search that saw nothing has proved nothing."""

from __future__ import annotations

import os

import pytest

SEEN: list[str] = []


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether the larger scopes are asked for."""
    return os.environ.get("EVENTJOBS_PROFILE") == "deep"


@pytest.fixture
def saw():
    """Called with a line about what a search saw."""
    return SEEN.append


def pytest_terminal_summary(terminalreporter):
    if SEEN:
        terminalreporter.section("exhaustive search")
        for line in SEEN:
            terminalreporter.write_line(line)
