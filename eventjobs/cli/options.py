"""Options that several commands share. Each option is a flag and a variable of the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from eventjobs.domain.limits import URL_DEFAULT

Command = TypeVar("Command", bound=Callable[..., Any])

DATA_DEFAULT = "./eventjobs-data"
"""Directory of the store unless somebody says otherwise, from the current one."""
DATABASE_SCHEMES = ("postgresql://", "postgres://")
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


class Local(click.Path):
    """A path of this machine. The address of a database is no path, whatever the name of the option suggests."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(path_type=Path, **attributes)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, str) and value.startswith(DATABASE_SCHEMES):
            self.fail("a store in a database is named with --store", param, ctx)
        return super().convert(value, param, ctx)


def data_option(words: str = "Directory of the store.", metavar: str = "DIR") -> Callable[[Command], Command]:
    """--data, where a store is on this machine, of the commands that work on it. A copy of its file may do."""
    return setting(
        "--data",
        type=Local(file_okay="FILE" in metavar),
        metavar=metavar,
        default=DATA_DEFAULT,
        show_default=True,
        help=words,
    )


def given(name: str) -> bool:
    """Whether the command line names this parameter of the command that runs."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_both() -> None:
    """Raises UsageError when the command line names two stores."""
    if given("data") and given("store"):
        raise click.UsageError("give --data, for a store on this machine, or --store, for one in a database: not both")


def url_option(command: Command) -> Command:
    """--url, where the coordinator is."""
    return setting("--url", metavar="URL", default=URL_DEFAULT, show_default=True, help="The coordinator's address.")(
        command
    )


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
