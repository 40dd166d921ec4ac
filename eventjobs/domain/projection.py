"""Projections: what is derived from the log, described as data so that any engine can keep it.

A projection turns one record, with its job's state before and after, into changes of its own tables. An engine
applies the changes in the append's own commit and keeps, for each projection, its version and its checkpoint (the
position it has seen). A projection whose version grew is emptied and folded anew from the first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol

from attrs import frozen

from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.job import Job


class Part(Enum):
    """What one place of a key holds. Names come before all others, so that keys sort as their parts do."""

    NAME = "name"
    """ASCII text without NUL, 1-128 characters."""
    NUMBER = "number"
    """Signed 64-bit integer."""
    UUID = "uuid"
    """A UUID as canonical text."""
    DIGEST = "digest"
    """32 bytes."""


Key = tuple[str | int | bytes, ...]
Value = bytes | int


@frozen(eq=False)
class Table:
    """An ordered table, compared by identity. `counters` tables hold integers and take deltas; others hold bytes.

    In a table with `first_stays` a put under a key that is there already does nothing: what was put first stays. In one
    with `put_once` nothing is ever put under a key that is there.
    """

    name: str
    key: tuple[Part, ...]
    counters: bool = False
    first_stays: bool = False
    put_once: bool = False


EVERY_EVENT: tuple[type, ...] = tuple(EVENT_TYPES.values())

Change = tuple[Table, Key, Value | None]
"""(table, key, value): bytes put, None deletes; in a table of counters an integer is added."""


class Rows(Protocol):
    """Reading of projection tables, in one consistent view."""

    def row(self, table: Table, key: Key) -> Value | None:
        """The value under the key; a counter that was never touched is None."""

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        """All rows whose key starts with the prefix, in key order (or reversed), strictly beyond a key if given.

        `beyond` is a full key with the same prefix; with `reverse` the rows below it are given.
        """

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        """The first row of each group of rows whose keys share their first `names` parts, all of them names.

        Only groups whose keys start with the prefix (at most `names` parts). Costs one seek a group, however many rows
        it has.
        """


class Projection(Protocol):
    """A projection: `name` (stable), `version` (raise it when the rule changes), its tables and its rule.

    `handles` are the events for which the rule may ask for a change, whatever the job was; of others it need not be
    asked.
    """

    name: str
    version: int
    tables: tuple[Table, ...]
    handles: tuple[type, ...]

    def project(self, rows: Rows, before: Job | None, record: Record, after: Job) -> Iterable[Change]:
        """The changes the record asks for. Pure: `rows` reads nothing but the projection's own tables."""
