"""How answers look on a terminal. Data goes to standard output, everything said about it to standard error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

STATE_STYLES = {
    "queued": "cyan",
    "running": "blue",
    "failed": "yellow",
    "succeeded": "green",
    "dead": "red",
    "canceled": "magenta",
}
_BREAKS_AND_DIRECTIONS = (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
VISIBLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
VISIBLE |= {code: f"\\u{code:04x}" for code in _BREAKS_AND_DIRECTIONS}
"""Characters that are shown by their codes: what a job brings along must not steer the terminal, break a line, nor have
others read in another order than they stand."""
VISIBLE_IN_LINES = {code: shown for code, shown in VISIBLE.items() if chr(code) not in "\t\n"}


def console() -> Console:
    """Standard output; in colours on a terminal that has them and when NO_COLOR is not set."""
    return Console(highlight=False)


def print_json(text: bytes) -> None:
    """A JSON text as it came, on a line of its own."""
    click.echo(text)


def state(name: str) -> Text:
    """The state in its colour."""
    return text(name, STATE_STYLES.get(name, ""))


def text(value: object, style: str = "") -> Text:
    """Any value in one line, as it is; nothing for None."""
    return Text("" if value is None else str(value).translate(VISIBLE), style)


def lines(value: str) -> Text:
    """A text of several lines."""
    return Text(value.translate(VISIBLE_IN_LINES))


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
    return "" if error is None else f"{error['type']}: {error['message']}".splitlines()[0]
