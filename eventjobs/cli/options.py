"""Options that several commands share. Each is a flag and a variable of the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

URL_DEFAULT = "http://127.0.0.1:8484"
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "console", "json")


def setting(flag: str, *names: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option that is also read from EVENTJOBS_<FLAG>, whatever the command."""
    variable = "EVENTJOBS_" + flag.lstrip("-").replace("-", "_").upper()
    return click.option(flag, *names, envvar=variable, show_envvar=True, **attributes)


def json_option(command: Command) -> Command:
    """--json: answer for scripts, on standard output."""
    return setting("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def log_options(command: Command) -> Command:
    """--log-level and --log-format, of the commands that keep running."""
    command = setting(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        default="auto",
        show_default=True,
        help="auto: readable on a terminal, JSON otherwise.",
    )(command)
    return setting(
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        default="info",
        show_default=True,
        help="debug has a line for each change of a job.",
    )(command)
