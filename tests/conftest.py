"""What the whole suite shares: a real coordinator, and how hard the tests try, chosen with EVENTJOBS_PROFILE.

`quick`, the default, and `ci` draw the same examples every time, `ci` more of them; `deep` draws many other examples
at each run and prints how to reproduce a failure.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from eventjobs.testing.processes import CoordinatorProcess

if TYPE_CHECKING:
    from eventjobs.testing.postgres import PostgresServer

settings.register_profile("quick", max_examples=50, stateful_step_count=30, derandomize=True, deadline=None)
settings.register_profile("ci", max_examples=300, stateful_step_count=50, derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=3_000, stateful_step_count=100, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("EVENTJOBS_PROFILE", "quick"))

PROCESSES_MAX = 4
"""More are seldom quicker: tests start processes themselves."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a suite started in the background is deaf to Ctrl+C, and would hand that on to the programs that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many processes share the tests out when `make test` runs them: as many as this one has cores, up to a few."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, PROCESSES_MAX)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What searches saw is said at the end, whichever processes made them."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind if getattr(each, "when", "") == "call"]
    lines = [line for report in reports for name, line in report.user_properties if name == "seen"]
    if lines:
        terminalreporter.section("exhaustive search")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def logging_is_left_alone() -> Iterator[None]:
    """No test configures logging for those after it: a command that does so is run in a process of its own."""
    before = structlog.get_config()
    yield
    assert structlog.get_config() == before


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[CoordinatorProcess]:
    """A coordinator in a process of its own, with a store of its own, on a free port of the loopback interface."""
    with CoordinatorProcess(tmp_path) as process:
        yield process


@pytest.fixture(scope="session")
def postgres_server() -> PostgresServer:
    """A PostgreSQL for all tests that want a database of their own."""
    from eventjobs.testing.postgres import shared_server  # only these tests need its libraries

    return shared_server()


@pytest.fixture
def postgres_url(tmp_path: Path) -> str:
    """The URL of an empty database, for this test alone."""
    from eventjobs.testing.postgres import database_of

    return database_of(tmp_path / "postgres")
