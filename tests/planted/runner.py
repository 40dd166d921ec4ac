"""Runs tests of the folder that it is started in, as often as it is asked: each run in a fork, with nothing of before.

Started once, it has imported what tests need from elsewhere, which is most of what a small run would take; of the
folder itself it imports nothing, so that each fork meets the files as they are then. Standard input brings a request a
line, {"arguments": [what pytest is told], "output": file for what it prints}; the answer is the exit code, a line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys

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
"""A run that takes longer is ended by a signal."""

IMPORTED = (aiohttp, asyncio, attrs, click, hypothesis, lmdb, msgspec, orjson, psutil, psycopg, rich, structlog, uvloop)
IMPORTED += (yaml,)


def run(arguments: list[str], output: str) -> int:
    """The exit code of a run; negative for the signal that ended it. Returns once more in each fork, by SystemExit."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(SECONDS_MAX)
    nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for opened, usual in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(opened, usual)
    raise SystemExit(pytest.main(arguments))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    gc.freeze()  # what was imported is not looked through at the end of every run
    while request := sys.stdin.readline():
        sys.stdout.write(f"{run(**json.loads(request))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
