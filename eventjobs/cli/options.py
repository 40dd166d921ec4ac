"""Options that several commands share. Each option is a flag and a variable of the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "console", "json")


def setting(flag: str, *names: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option that is also read from EVENTJOBS_<FLAG>, whatever the command."""
    return click.option(flag, *names, envvar=_variable(flag), show_envvar=True, **attributes)


def name_variables(command: click.Command) -> None:
    """Let every other option of the command be read from EVENTJOBS_<COMMAND>_<FLAG>, and its help say so."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            option.envvar = _variable(f"{command.name}{option.opts[0]}")
            option.show_envvar = True


def _variable(words: str) -> str:
    return "_".join(["EVENTJOBS", *filter(None, words.split("-"))]).upper()


def data_option(command: Command) -> Command:
    """--data, of the commands that work on the directory of a store while no coordinator runs."""
    return setting(
        "--data",
        type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
        default=Path("eventjobs-data"),
        show_default="./eventjobs-data",
        help="Directory of the store.",
    )(command)


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
        help="How the lines look; auto is console on a terminal and json elsewhere.",
    )(command)
    return setting(
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        default="info",
        show_default=True,
        help="What is logged: lines of this level and above. debug has one for each change of a job.",
    )(command)
