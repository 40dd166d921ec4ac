"""Logging of the commands: one line per event on standard error, readable on a terminal and JSON otherwise.

Only the command line configures logging; the other packages just ask structlog for a logger. Lines of libraries that
use the standard library's logging come out in the same form. No line stops who logs it: see log_stream.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import orjson
import structlog
from aiohttp.http_exceptions import BadHttpMessage

from eventjobs.cli.log_stream import LineStream

HTTP_SERVER = "aiohttp.server"
REASON_LENGTH_MAX = 200
"""Characters of what a stranger sent that a line may hold."""


def configure(level: str = "info", form: str = "auto") -> LineStream:
    """Set up logging for this process; `level` and `form` are from options.LOG_LEVELS and LOG_FORMATS.

    Gives the stream of the lines, for what else a command that keeps running has to say.

    A line below the level costs next to nothing: its method does nothing at all.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    readable = form == "console" or (form == "auto" and sys.stderr.isatty())
    before = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    processors = [*before, *(_readable() if readable else _json(_json_bytes))]
    stream = _stream(processors)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.WriteLogger(stream) if readable else structlog.BytesLogger(stream),
        cache_logger_on_first_use=True,
    )
    _route_standard_logging(number, before, _readable() if readable else _json(_json_text), stream)
    return stream


def _stream(processors: list[Callable]) -> LineStream:
    """Standard error, without its buffer: what could not be written must not be in the way of what comes next."""

    def lost_line(count: int) -> str | bytes:
        line: Any = {"event": "log_lines_lost", "lines": count}
        for processor in processors:
            line = processor(None, "error", line)
        return line

    stream = LineStream(getattr(sys.stderr.buffer, "raw", sys.stderr.buffer), lost_line)
    atexit.register(stream.close)
    return stream


def _readable() -> list[Callable]:
    # plain: a traceback with local variables would put payloads on the screen
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(timestamp_key="time", colors=_in_colours(), exception_formatter=plain)]


def _in_colours() -> bool:
    """Whether standard error is a terminal that shows colours, and its user wants them (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _json(dumps: Callable[..., Any]) -> list[Callable]:
    return [structlog.processors.format_exc_info, _ordered, structlog.processors.JSONRenderer(serializer=dumps)]


def _ordered(_: Any, __: str, line: dict[str, Any]) -> dict[str, Any]:
    """When, how bad and what first, as a reader looks for them."""
    return {"time": line.pop("time"), "level": line.pop("level"), "event": line.pop("event"), **line}


def _json_bytes(line: dict[str, Any], default: Callable[[Any], Any]) -> bytes:
    try:
        return orjson.dumps(line, default=default)
    except TypeError:  # a number or a text that JSON cannot carry: the line must come out all the same
        return orjson.dumps({key: value if _plain(value) else ascii(value) for key, value in line.items()})


def _plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii()


def _json_text(line: dict[str, Any], default: Callable[[Any], Any]) -> str:
    return _json_bytes(line, default).decode()


def _route_standard_logging(number: int, before: list[Callable], finish: list[Callable], stream: LineStream) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*before, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.INFO))  # debugging eventjobs must not bring the libraries' own debug lines
    logging.getLogger(HTTP_SERVER).addFilter(_calm)


def _calm(record: logging.LogRecord) -> bool:
    """Make the error that bytes which are no HTTP are to the server a warning of one line.

    Whoever scans ports sends such bytes, and nothing is wrong here: a traceback each would bury what matters.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BadHttpMessage):
        reason = " ".join(error.message.split())[:REASON_LENGTH_MAX]
        reason = "".join(letter if " " <= letter <= "~" else "?" for letter in reason)
        record.msg, record.args = "%s: no valid HTTP: %s", (record.getMessage(), reason)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return logging.getLogger(HTTP_SERVER).isEnabledFor(record.levelno)
