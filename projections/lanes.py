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


def newest(rows: Rows, table: Table, wanted: Wanted, below: int | None, limit: int) -> list[tuple[int, Value]]:
    """Up to `limit` (number, value) of the wanted lanes, highest number first, all below `below` if it is given."""
    return _merged(rows, table, wanted, below, limit, reverse=True)


def oldest(rows: Rows, table: Table, wanted: Wanted, above: int | None, limit: int) -> list[tuple[int, Value]]:
    """Up to `limit` (number, value) of the wanted lanes, lowest number first, all above `above` if it is given."""
    return _merged(rows, table, wanted, above, limit, reverse=False)


def lanes(rows: Rows, table: Table, wanted: Wanted) -> Iterator[Key]:
    """The names of every lane that has rows and is wanted, in key order."""
    return _lanes(rows, table, wanted, ())


def _lanes(rows: Rows, table: Table, wanted: Wanted, prefix: Key) -> Iterator[Key]:
    """The wanted lanes that start with the prefix; each further name is given or sought."""
    place = len(prefix)
    if place == len(wanted):
        if next(rows.heads(table, place, prefix), None) is not None:
            yield prefix
    elif wanted[place] is not None:
        yield from _lanes(rows, table, wanted, (*prefix, wanted[place]))
    elif all(name is None for name in wanted[place:]):
        for key, _ in rows.heads(table, len(wanted), prefix):
            yield key[:-1]
    else:
        for key, _ in rows.heads(table, place + 1, prefix):
            yield from _lanes(rows, table, wanted, (*prefix, key[place]))


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
