"""Bars on a terminal for work that takes long. Elsewhere nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Tell = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is (0 when that is not known)."""


@contextmanager
def progress_bars() -> Iterator[Tell]:
    """A bar on standard error for each thing that is told of; they go when the work is over."""
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True,
    )  # fmt: skip
    tasks: dict[str, int] = {}

    def tell(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=None)
        bars.update(tasks[what], completed=done, total=total or None)

    with bars:
        yield tell
