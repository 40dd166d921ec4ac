"""Logging: one line per event on standard error, in a form that fits the reader. Each case is a process of its own,
since loggers are configured once."""

from __future__ import annotations

import subprocess
import sys

import orjson


def lines_of(body: str, level: str = "info", form: str = "auto") -> list[str]:
    """Standard error of a program that logs after configure(level, form)."""
    program = (
        "import logging, structlog\n"
        "from eventjobs.cli import logs\n"
        f"logs.configure({level!r}, {form!r})\n"
        "log = structlog.get_logger('eventjobs.jobs')\n"
    )
    done = subprocess.run([sys.executable, "-c", program + body], capture_output=True, text=True)
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
