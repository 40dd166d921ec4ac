"""Lanes: tables whose keys are some names and then a number, read by number across every lane that is wanted.

A lane is all rows whose keys share their names, such as one queue, kind and state. Which lanes exist is found by
seeking from lane to lane, so rows of lanes nobody asked for are never walked over. A read costs
O((limit + lanes) * log n), where `lanes` counts those that match and, for each group of lanes left out, a seek.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from eventjobs.domain.projection import Key, Rows, Table, Value

Wanted = tuple[str | None, ...]
"""One place for each name of the table's key; None means any."""

BELOW_ALL_NAMES = "\x01"
ABOVE_ALL_NAMES = "\x7f"
"""Queues, kinds and states are made of printable ASCII, so these two enclose them."""

BELOW_ALL_NUMBERS = 0
ABOVE_ALL_NUMBERS = 2**63 - 1
"""The numbers are positions in the log, which start at 1."""


def newest(rows: Rows, table: Table, wanted: Wanted, below: int | None, limit: int) -> list[tuple[int, Value]]:
    """Up to `limit` (number, value) of the wanted lanes, highest number first, all below `below` if it is given."""
    return _merged(rows, table, wanted, below, limit, reverse=True)


def oldest(rows: Rows, table: Table, wanted: Wanted, above: int | None, limit: int) -> list[tuple[int, Value]]:
    """Up to `limit` (number, value) of the wanted lanes, lowest number first, all above `above` if it is given."""
    return _merged(rows, table, wanted, above, limit, reverse=False)


def lanes(rows: Rows, table: Table, wanted: Wanted) -> Iterator[Key]:
    """The names of every lane that has rows and is wanted, in key order."""
    prefix = wanted[: next((place for place, name in enumerate(wanted) if name is None), len(wanted))]
    beyond = None
    while (row := next(rows.rows(table, prefix, beyond), None)) is not None:
        lane = row[0][:-1]
        misfit = _first_misfit(lane, wanted)
        if misfit is None:
            yield lane
            beyond = (*lane, ABOVE_ALL_NUMBERS)
        else:
            beyond = _jump(lane, wanted, misfit)


def _first_misfit(lane: Key, wanted: Wanted) -> int | None:
    """The place of the first name that is not the wanted one."""
    for place, name in enumerate(wanted):
        if name is not None and name != lane[place]:
            return place
    return None


def _jump(lane: Key, wanted: Wanted, misfit: int) -> Key:
    """The key to go on from: just before the next lanes that may be wanted."""
    names_after = len(wanted) - misfit - 1
    if lane[misfit] < wanted[misfit]:
        return (*lane[:misfit], wanted[misfit], *[BELOW_ALL_NAMES] * names_after, BELOW_ALL_NUMBERS)
    return (*lane[:misfit], *[ABOVE_ALL_NAMES] * (names_after + 1), ABOVE_ALL_NUMBERS)


def _merged(
    rows: Rows, table: Table, wanted: Wanted, beyond: int | None, limit: int, *, reverse: bool
) -> list[tuple[int, Value]]:
    runs = [
        rows.rows(table, lane, None if beyond is None else (*lane, beyond), reverse)
        for lane in lanes(rows, table, wanted)
    ]
    merged = merge(*runs, key=_number, reverse=reverse)
    return [(key[-1], value) for key, value in islice(merged, limit)]


def _number(row: tuple[Key, Value]) -> int:
    return row[0][-1]
