"""The product's own log lines, heard by somebody else than usual."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

Hear = Callable[[str, str, dict[str, Any]], None]
"""Is told level, event and facts of a line."""


@contextmanager
def heard_by(hear: Hear) -> Iterator[None]:
    """Within this context every line from info upwards goes to `hear`, and nowhere else."""

    def take(_: object, level: str, line: dict[str, Any]) -> dict[str, Any]:
        hear(level, line.pop("event"), line)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
