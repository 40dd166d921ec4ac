"""What a command's exit code means, and the errors that lead to each.

A script can rely on these; `eventjobs --help` prints them. An expected error is one line on standard error, never a
traceback.
"""

from __future__ import annotations

import sys
from typing import IO, Any

import click

DONE = 0
REFUSED = 1
USAGE = 2
UNREACHABLE = 3
CANNOT_SERVE = 4
COORDINATOR_FAILED = 70
INTERRUPTED = 130

MEANINGS = {
    DONE: "done",
    REFUSED: "refused by the coordinator, or failed; commands that work on a store: something is damaged or differs",
    USAGE: "wrong usage; commands that work on a store: it could not be done, or not to its end",
    UNREACHABLE: "no coordinator answers at the URL, or it takes no requests now",
    CANNOT_SERVE: "serve: the address or the store cannot be used",
    COORDINATOR_FAILED: "serve: the store failed while running; start it again",
    INTERRUPTED: "interrupted",
}
"""Every exit code with its meaning, as the help shows them."""


class CommandError(click.ClickException):
    """The command ends with `exit_code` and this line on standard error."""

    exit_code = REFUSED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"eventjobs: {self.format_message()}", file=file or sys.stderr)


class Refused(CommandError):
    """The coordinator refused, or what was asked for failed."""

    exit_code = REFUSED


class CannotCheck(CommandError):
    """There is no store that could be looked at, or not all of it could be."""

    exit_code = USAGE


class Unreachable(CommandError):
    """No coordinator answers, or it takes no requests now."""

    exit_code = UNREACHABLE


class CannotServe(CommandError):
    """The coordinator cannot start here: its address or its store is not usable."""

    exit_code = CANNOT_SERVE


class CoordinatorFailed(CommandError):
    """The coordinator stopped by itself because the outcome of a commit is unknown."""

    exit_code = COORDINATOR_FAILED
