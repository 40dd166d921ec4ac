"""Where a store is and where a log is read: --data for a directory or a file of this machine, --store for a database,
--url for a coordinator. The same words in every command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from eventjobs.cli import options
from eventjobs.cli.places import DATABASE
from eventjobs.cli.stores import Database

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(
    data_help: str, store_help: str, metavar: str = "DIR"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--data and --store, of the commands that work on a store: the command gets the one that is meant as `place`.

    The command line goes before the environment, which may name both: the database is meant then.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @options.data_option(data_help, metavar)
        @options.setting("--store", type=DATABASE, metavar="URL", help=store_help)
        @functools.wraps(command)
        def placed(data: Path, store: Database | None, **arguments: Any) -> Any:
            options.refuse_both()
            return command(place=data if store is None or options.given("data") else store, **arguments)

        return placed

    return decorate


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--data, --store and --url, of the commands that ask a coordinator: the store is read if it is given, beside a
    running coordinator or without one, and the command gets it as `store`.

    Variables of their own go with the first two, EVENTJOBS_<COMMAND>_DATA: those that `serve` reads must not make a
    command look elsewhere without a word.
    """

    @click.option(
        "--data",
        type=options.Local(),
        metavar="DIR|FILE",
        help="Directory of a store, or a copy of its file, to read instead of asking the coordinator.",
    )
    @click.option(
        "--store",
        type=DATABASE,
        metavar="URL",
        help="PostgreSQL database to read instead of asking the coordinator, postgresql://USER@HOST/NAME.",
    )
    @options.url_option
    @functools.wraps(command)
    def reading(data: Path | None, store: Database | None, **arguments: Any) -> Any:
        options.refuse_both()
        return command(store=data if store is None or options.given("data") else store, **arguments)

    return reading
