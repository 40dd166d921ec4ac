"""Leasing looks at what it takes and at little else, however long the queues are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice

import pytest

from eventjobs.domain.projection import Key, Table
from eventjobs.store.indexes import READY
from eventjobs.store.ready import due_places
from eventjobs.testing import builders as b

FUTURE = b.at(1_000)
NOW = b.at(10)


class SortedRows:
    """The ready table as a sorted list. Counts the rows handed out."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys, self.handed_out = sorted(keys), 0

    def rows(self, table: Table, prefix: Key = (), beyond: Key | None = None) -> Iterator[tuple[Key, bytes]]:
        assert table is READY
        start = bisect_left(self.keys, prefix) if beyond is None else bisect_right(self.keys, beyond)
        for key in self.keys[start:]:
            if key[: len(prefix)] != prefix:
                return
            self.handed_out += 1
            yield key, b.an_id(key[-1]).encode()

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, bytes]]:
        assert table is READY
        at = bisect_left(self.keys, prefix)
        while at < len(self.keys) and self.keys[at][: len(prefix)] == prefix:
            self.handed_out += 1
            key = self.keys[at]
            yield key, b.an_id(key[-1]).encode()
            at = bisect_right(self.keys, key[:names], key=lambda other: other[:names])


def first_of(number, places):
    return list(islice(places, number))


def waiting(count: int, *, queue="default", kind="email", priority=0, run_at=b.START, first=0) -> list[Key]:
    return [(queue, kind, -priority, run_at, first + number) for number in range(count)]


@pytest.mark.parametrize(
    ("ahead", "queues", "kinds"),
    [
        (waiting(5_000, run_at=FUTURE, priority=9), ["default"], ["email"]),
        (waiting(5_000, run_at=FUTURE, priority=9), None, None),
        (waiting(5_000, kind="a-kind-nobody-asked-for"), ["default"], ["email"]),
        (waiting(5_000, queue="a-queue-nobody-asked-for"), ["default"], None),
        (waiting(5_000, queue="a-queue-nobody-asked-for"), ["default"], ["email"]),
        (waiting(5_000, kind="zzz", run_at=FUTURE), None, None),
        (waiting(5_000, first=10), None, None),
    ],
)
def test_what_is_not_taken_is_not_walked_over(ahead, queues, kinds):
    """Neither a scheduled head of 5,000 jobs, nor a kind or queue nobody asked for, nor a long lane costs a walk."""
    rows = SortedRows(ahead + waiting(5))
    taken = first_of(2, due_places(rows, queues, kinds, NOW))
    assert [place[2] for place in taken] == [0, 1]
    assert rows.handed_out <= 12


def test_a_kind_left_out_costs_nothing_in_any_queue():
    """Named kinds are looked up in each queue with one seek, without reading the kinds in between."""
    keys = [key for number in range(100) for key in waiting(3, queue="q", kind=f"kind-{number}", first=number * 3)]
    rows = SortedRows(keys)
    assert len(first_of(100, due_places(rows, None, ["kind-7", "kind-70", "kind-none"], NOW))) == 6
    assert rows.handed_out <= 6 + 2 * 2 + 2


def test_each_priority_is_tried_when_its_first_job_is_not_due():
    """A scheduled job of high priority does not hide due ones of lower priority, whose own order holds."""
    keys = [
        *waiting(1, priority=5, run_at=FUTURE, first=1),
        *waiting(1, priority=5, run_at=NOW, first=2),
        *waiting(1, priority=0, run_at=FUTURE, first=3),
        *waiting(1, priority=-5, run_at=NOW - 1, first=4),
        *waiting(1, priority=-5, run_at=NOW + 1, first=5),
    ]
    assert [place[2] for place in first_of(10, due_places(SortedRows(keys), None, None, NOW))] == [2, 4]


def test_a_name_asked_for_twice_counts_once():
    """A queue or kind that is named twice does not have its jobs offered twice."""
    rows = SortedRows(waiting(2))
    places = due_places(rows, ["default", "default"], ["email", "email"], NOW)
    assert [place[2] for place in first_of(10, places)] == [0, 1]


def test_many_kinds_that_are_not_there_cost_little():
    """256 kinds asked for in a queue that has two lanes: what is there is leapt to."""
    rows = SortedRows([*waiting(3, kind="k-100"), *waiting(3, kind="zzz", first=3)])
    kinds = [f"k-{number}" for number in range(256)]
    assert [place[2] for place in first_of(9, due_places(rows, ["default"], kinds, NOW))] == [0, 1, 2]
    assert rows.handed_out <= 6
