"""What a comparison of projections found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from attrs import frozen

Row = TypeVar("Row")


@frozen
class Finding:
    """How one projection compares: how many rows it should have, how many differ, and the key of the first that does.

    `stale` says that it is of an older rule or behind the log, and would be made anew at the next start.
    """

    name: str
    rows: int
    differing: int
    first: str | None
    stale: bool

    @property
    def same(self) -> bool:
        return not (self.differing or self.stale)


class Counted(Generic[Row]):
    """Rows that are counted as they go by."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows, self.count = rows, 0

    def __iter__(self) -> Counted[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._rows)
        self.count += 1
        return row
