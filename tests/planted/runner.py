"""Runs tests of the folder that it is started in, as often as it is asked: each run in a fork, with nothing of before.

Started once, it has imported what tests need from elsewhere, which is most of what a small run would take; of the
folder itself it imports nothing, so that each fork meets the files as they are then. Standard input brings a request a
line, {"arguments": [what pytest is told], "output": file for what it prints}; the answer is the exit code, a line.

A test that fails is one thing and a test that cannot be run another: when no test failed in its own body, and something
went wrong before or after it, the exit code is NOT_RUN instead of pytest's.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from contextlib import suppress

import aiohttp.test_utils
import aiohttp.web
import attrs
import click.testing
import hypothesis.stateful
import hypothesis.strategies
import lmdb
import msgspec
import orjson
import psutil
import psycopg
import pytest
import rich.console
import structlog.testing
import uvloop
import yaml

SECONDS_MAX = 300
"""A run that takes longer is ended by a signal, and with it what it started."""
NOT_RUN = 70
"""Beside pytest's exit codes: something failed, and no test did."""

IMPORTED = (aiohttp, asyncio, attrs, click, hypothesis, lmdb, msgspec, orjson, psutil, psycopg, rich, structlog, uvloop)
IMPORTED += (yaml,)


class FailedTests:
    """A plugin that counts the tests that failed in their own bodies."""

    def __init__(self) -> None:
        self.number = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.number += report.when == "call" and report.failed


def run(arguments: list[str], output: str) -> int:
    """The exit code of a run; negative for the signal that ended it. Returns once more in each fork, by SystemExit."""
    child = os.fork()
    if child:
        signal.signal(signal.SIGALRM, lambda *_: end(child))
        signal.alarm(SECONDS_MAX)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.alarm(0)
        return code
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for opened, usual in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(opened, usual)
    failed = FailedTests()
    code = pytest.main(arguments, plugins=[failed])
    raise SystemExit(NOT_RUN if code == pytest.ExitCode.TESTS_FAILED and not failed.number else code)


def end(child: int) -> None:
    """End a run outright, and all that it started: servers have sessions of their own and would outlive it."""
    run_itself = psutil.Process(child)
    for process in (run_itself, *run_itself.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    gc.freeze()  # what was imported is not looked through at the end of every run
    while request := sys.stdin.readline():
        sys.stdout.write(f"{run(**json.loads(request))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
