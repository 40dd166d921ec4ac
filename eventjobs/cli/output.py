"""How answers look on a terminal. Data goes to standard output, everything said about it to standard error."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

STATE_STYLES = {
    "queued": "cyan",
    "running": "blue",
    "failed": "yellow",
    "succeeded": "green",
    "dead": "red",
    "canceled": "magenta",
}
WIDTH_WITHOUT_TERMINAL = 160


def console() -> Console:
    """Where tables go: as wide as the terminal, or wide enough for every column when there is none."""
    width = None if sys.stdout.isatty() else max(WIDTH_WITHOUT_TERMINAL, shutil.get_terminal_size().columns)
    return Console(width=width, highlight=False, soft_wrap=False)


def print_json(text: bytes) -> None:
    """A JSON text as it came, on a line of its own."""
    click.echo(text)


def table(*columns: str, title: str | None = None) -> Table:
    """An open table; columns whose names start with # hold numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        number = column.startswith("#")
        made.add_column(column.lstrip("#"), justify="right" if number else "left", no_wrap=column == "id")
    return made


def state(name: str) -> str:
    """The state in its colour."""
    return f"[{STATE_STYLES.get(name, 'default')}]{escape(name)}[/]"


def plain(value: object) -> str:
    """Any value as text that is not taken for markup; nothing for None."""
    return "" if value is None else escape(str(value))


def clock(time: str | None) -> str:
    """A wire time in this machine's zone, to the millisecond."""
    if time is None:
        return ""
    return moment(time).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def moment(time: str) -> datetime:
    """A wire time as a datetime in UTC."""
    return datetime.fromisoformat(time).astimezone(UTC)


def duration(seconds: float) -> str:
    """A duration for a reader: 3.2 ms, 4.51 s, 2 m 05 s, 3 h 20 m, 2 d 4 h."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def first_line(error: dict[str, Any] | None) -> str:
    """An error in one line."""
    if error is None:
        return ""
    return plain(f"{error['type']}: {error['message']}".splitlines()[0])
