"""Where a log is read: from a coordinator, or from its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from eventjobs.cli import options
from eventjobs.cli.places import PLACE
from eventjobs.domain.limits import URL_DEFAULT

Command = TypeVar("Command", bound=Callable[..., Any])


def source_options(command: Command) -> Command:
    """--store and --url: the store is read if it is given, beside a running coordinator or without one."""
    command = options.setting(
        "--url", metavar="URL", default=URL_DEFAULT, show_default=True, help="The coordinator's address."
    )(command)
    return click.option(
        "--store",
        type=PLACE,
        metavar="DIR|FILE|URL",
        help="Directory of a store, a copy of its file, or the URL of a PostgreSQL database, to read instead of asking "
        "the coordinator.",
    )(command)
