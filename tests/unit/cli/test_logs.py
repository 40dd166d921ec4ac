"""Logging: one line per event on standard error, in a form that fits the reader. Each case is a process of its own,
since loggers are configured once."""

from __future__ import annotations

import os
import subprocess
import sys

import orjson
import pytest

ON_A_TERMINAL = "import sys\nsys.stderr.isatty = lambda: True\n"


def lines_of(body: str, level: str = "info", form: str = "auto", before: str = "", **environment: str) -> list[str]:
    """Standard error of a program that logs after configure(level, form); `before` is what it does first."""
    program = (
        f"{before}import logging, structlog\n"
        "from eventjobs.cli import logs\n"
        f"logs.configure({level!r}, {form!r})\n"
        "log = structlog.get_logger('eventjobs.jobs')\n"
    )
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    settings = {**clean, "TERM": "xterm", **environment}
    done = subprocess.run([sys.executable, "-c", program + body], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_line_is_json_when_nobody_watches() -> None:
    """Not on a terminal: one JSON object a line, with level, time and all that was given."""
    (line,) = lines_of("log.info('job_completed', job='a', attempt=2, token=3, duration=0.25)")
    facts = orjson.loads(line)
    assert facts.pop("time").endswith("Z")
    assert facts == {"event": "job_completed", "level": "info", "job": "a", "attempt": 2, "token": 3, "duration": 0.25}


def test_a_line_is_readable_when_asked_for() -> None:
    """The console form is text, with the same facts."""
    (line,) = lines_of("log.warning('lease_expired', job='a', token=3)", form="console")
    assert "lease_expired" in line and "job=a" in line and "token=3" in line and "warning" in line
    assert not line.startswith("{")


def test_lines_below_the_level_are_left_out() -> None:
    """Nothing below the level appears, and a caller can ask whether it would."""
    body = "log.debug('a'); log.info('b'); log.warning('c'); log.error(str(log.is_enabled_for(logging.INFO)))"
    assert [orjson.loads(line)["event"] for line in lines_of(body, level="warning")] == ["c", "False"]


def test_lines_of_the_standard_library_come_out_alike() -> None:
    """A warning of a library is a JSON line too, with its logger's name; its debug lines stay away."""
    body = "logging.getLogger('asyncio').debug('no'); logging.getLogger('asyncio').warning('slow %s', 'callback')"
    (line,) = lines_of(body, level="debug")
    facts = orjson.loads(line)
    assert (facts["event"], facts["level"], facts["logger"]) == ("slow callback", "warning", "asyncio")


def test_an_exception_is_part_of_its_line() -> None:
    """A traceback does not break the line apart."""
    (line,) = lines_of("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('broken')")
    assert "ZeroDivisionError" in orjson.loads(line)["exception"]


def test_a_value_that_json_cannot_carry_does_not_lose_the_line() -> None:
    """Numbers of more than 64 bits and broken text are shown in an ASCII form."""
    (line,) = lines_of("log.info('odd', number=2**70, text='\\ud800', fine=1)")
    facts = orjson.loads(line)
    assert facts["number"] == str(2**70) and facts["text"].isascii() and facts["event"] == "odd"


@pytest.mark.parametrize(
    ("environment", "in_colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_colours_are_for_terminals_that_want_them(environment: dict[str, str], in_colours: bool) -> None:
    """On a terminal lines are readable, and in colours unless NO_COLOR is set or the terminal is a dumb one."""
    body = "log.warning('w', job='a'); logging.getLogger('asyncio').warning('x')"
    lines = lines_of(body, before=ON_A_TERMINAL, **environment)
    assert len(lines) == 2
    for line in lines:
        assert "warning" in line and not line.startswith("{")
        assert ("\x1b[" in line) is in_colours


def server_error(error: str) -> str:
    """A program's text in which the HTTP server logs an error as it does."""
    return (
        "from aiohttp.http_exceptions import TransferEncodingError, LineTooLong\n"
        "try:\n"
        f"    raise {error}\n"
        "except Exception as error:\n"
        "    logging.getLogger('aiohttp.server').exception('Error from %s', '10.0.0.9', exc_info=error)\n"
    )


@pytest.mark.parametrize(
    "error", ["TransferEncodingError('bad\\n size:\\n\\x1b[2J\xff')", "LineTooLong(b'x' * 9999, 8190, '9999')"]
)
def test_what_is_no_http_is_a_warning_in_one_line(error: str) -> None:
    """Bytes that are no HTTP are told with their sender and what is wrong, bounded, and without a traceback."""
    for level in ("info", "warning"):
        (line,) = lines_of(server_error(error), level)
        facts = orjson.loads(line)
        assert (facts["level"], facts["logger"]) == ("warning", "aiohttp.server")
        assert facts["event"].startswith("Error from 10.0.0.9: no valid HTTP: ")
        assert "exception" not in facts and len(line) < 500 and facts["event"].isprintable()
    (line,) = lines_of(server_error(error), form="console")
    assert "no valid HTTP" in line and "warning" in line
    assert lines_of(server_error(error), "error") == []


def test_an_error_of_the_http_server_keeps_its_traceback() -> None:
    """What is not the sender's fault stays an error with all it says."""
    for level in ("info", "error"):
        (line,) = lines_of(server_error("ValueError('ours')"), level)
        facts = orjson.loads(line)
        assert (facts["event"], facts["level"]) == ("Error from 10.0.0.9", "error")
        assert "ValueError: ours" in facts["exception"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_line_stops_who_logs_it(form: str) -> None:
    """Without anybody to read standard error loggers raise nothing, and what was lost is told to the next reader."""
    body = (
        "import os, sys, time\n"
        "real = os.dup(2)\n"
        "reader, writer = os.pipe()\n"
        "os.close(reader)\n"
        "os.dup2(writer, 2)\n"
        "for _ in range(3): log.warning('unheard')\n"
        "logging.getLogger('asyncio').warning('unheard')\n"
        "from eventjobs.cli.log_stream import LineStream\n"
        "import gc\n"
        "stream = next(each for each in gc.get_objects() if isinstance(each, LineStream))\n"
        "while stream._waiting_bytes: time.sleep(0.001)\n"
        "os.dup2(real, 2)\n"
        "log.warning('heard')\n"
    )
    told, heard = lines_of(body, form=form)
    assert "log_lines_lost" in told and "4" in told and "error" in told
    assert "heard" in heard and "unheard" not in heard
