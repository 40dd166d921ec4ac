"""Indexes and read models, folded anew from the log, and held against those in the store row by row."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from zlib import crc32

from eventjobs.domain.events import Record
from eventjobs.domain.job import Job
from eventjobs.domain.projection import EVERY_EVENT, Key, Projection, Rows, Table, Value
from eventjobs.store.codec import CRC_BYTES, seal
from eventjobs.store.keys import KeyCodec
from eventjobs.store.lmdb.reader import COUNTER_BYTES
from eventjobs.store.lmdb.scratch import Scratch

ROWS_IN_MEMORY_MAX = 150_000
"""Changed rows that are held back before they go to the scratch store; with them, those that come and go never do."""

CHUNK = 512
"""Rows that are compared at once as long as nothing is wrong."""

Faulty = Iterator[tuple[str, bytes, bytes | None, bytes | None]]
"""(sort, key, value stored, value folded)."""


class FoldedTables(Rows):
    """The tables of some projections, as the log makes them. Few rows are in memory, the others in a scratch store."""

    def __init__(self, projections: Sequence[Projection], scratch: Scratch) -> None:
        self._scratch = scratch
        self._projects = {
            event: [projection.project for projection in projections if event in projection.handles]
            for event in EVERY_EVENT
        }
        tables = [table for projection in projections for table in projection.tables]
        self._codecs = {table: KeyCodec(table) for table in tables}
        self._held: dict[Table, dict[Key, Value | None]] = {table: {} for table in tables}
        self._written: set[Table] = set()
        self._ordered: set[Table] = set()
        """Tables that are read in order, and therefore kept in the scratch store alone."""

    def take(self, before: Job | None, record: Record, after: Job) -> None:
        """Let a record take its effect on every table."""
        held_of, written, ordered = self._held, self._written, self._ordered
        for project in self._projects[type(record.event)]:
            for table, key, value in project(self, before, record, after):
                held = held_of[table]
                if table.counters:
                    held[key] = held.get(key, 0) + value
                    continue
                if table.first_stays and self.row(table, key) is not None:
                    continue
                if value is not None or table in written:
                    held[key] = value
                else:
                    held.pop(key, None)
                if table in ordered:
                    self._write(table)

    def settle(self, rows_max: int = ROWS_IN_MEMORY_MAX) -> None:
        """Write what is held back, if it is more than `rows_max` rows."""
        if sum(map(len, self._held.values())) > rows_max:
            for table in self._held:
                self._write(table)
            self._scratch.commit()

    def _write(self, table: Table) -> None:
        held = self._held[table]
        if not held:
            return
        encode = self._codecs[table].encode
        rows = [(encode(key), value) for key, value in held.items() if value is not None]
        if table.counters:
            rows = [(key, self._sum(table, key, delta)) for key, delta in rows]
        gone = [] if len(rows) == len(held) else [encode(key) for key, value in held.items() if value is None]
        self._scratch.write(table.name, sorted(rows), gone)
        self._written.add(table)
        held.clear()

    def _sum(self, table: Table, key: bytes, delta: int) -> bytes:
        before = self._scratch.get(table.name, key)
        count = delta + (0 if before is None else int.from_bytes(before, "big", signed=True))
        return count.to_bytes(COUNTER_BYTES, "big", signed=True)

    def row(self, table: Table, key: Key) -> Value | None:
        if table.counters:
            self._write(table)
        elif key in (held := self._held[table]):
            return held[key]
        if table not in self._written:
            return None
        return self._value(table, self._scratch.get(table.name, self._codecs[table].encode(key)))

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        if not table.counters:
            self._ordered.add(table)
        self._write(table)
        codec = self._codecs[table]
        start = codec.encode_prefix(prefix)
        edge = None if beyond is None else codec.encode(beyond)
        found = self._scratch.rows(table.name, start if edge is None or reverse else edge + b"\0")
        rows = _while_prefixed(found, start)
        if reverse:
            rows = reversed([(key, value) for key, value in rows if edge is None or key < edge])
        return ((codec.decode(key), self._value(table, value)) for key, value in rows)

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        for _, group in groupby(self.rows(table, prefix), key=lambda row: row[0][:names]):
            yield next(group)

    def _value(self, table: Table, stored: bytes | None) -> Value | None:
        return int.from_bytes(stored, "big", signed=True) if table.counters and stored is not None else stored

    def folded(self, table: Table) -> Iterator[tuple[bytes, bytes]]:
        """The rows of a table as the log makes them, keys and values in bytes."""
        self._write(table)
        return self._scratch.rows(table.name)

    def name_of(self, table: Table, key: bytes) -> str:
        """A row's key for a reader."""
        try:
            parts = self._codecs[table].decode(key)
        except (ValueError, struct.error):
            return key.hex()
        return ", ".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)


def _while_prefixed(rows: Iterator[tuple[bytes, bytes]], prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    for row in rows:
        if not row[0].startswith(prefix):
            return
        yield row


def differences(stored: Iterator[tuple[bytes, bytes]], folded: Iterator[tuple[bytes, bytes]]) -> Faulty:
    """What is not the same in a table's rows as stored (with their checksums) and as folded, both in key order."""
    while True:
        rows, made = list(islice(stored, CHUNK)), list(islice(folded, CHUNK))
        if not rows and not made:
            return
        if rows != [(key, seal(key, value)) for key, value in made]:
            break
    yield from _row_by_row(chain(rows, stored), chain(made, folded))


def _is_whole(row: tuple[bytes, bytes]) -> bool:
    key, sealed = row
    return crc32(sealed[CRC_BYTES:], crc32(key)).to_bytes(CRC_BYTES, "big") == sealed[:CRC_BYTES]


def _row_by_row(stored: Iterator[tuple[bytes, bytes]], folded: Iterator[tuple[bytes, bytes]]) -> Faulty:
    key, value = next(folded, (None, b""))
    for row in stored:
        stored_key, stored_value, whole = row[0], row[1][CRC_BYTES:], _is_whole(row)
        while key is not None and key < stored_key:
            yield "row_missing", key, None, value
            key, value = next(folded, (None, b""))
        if key != stored_key:
            yield "row_extra" if whole else "row_damaged", stored_key, stored_value, None
            continue
        if not whole:
            yield "row_damaged", key, stored_value, value
        elif stored_value != value:
            yield "row_wrong", key, stored_value, value
        key, value = next(folded, (None, b""))
    while key is not None:
        yield "row_missing", key, None, value
        key, value = next(folded, (None, b""))


def damaged(stored: Iterator[tuple[bytes, bytes]]) -> Faulty:
    """The rows of a table that fail their checksums: all that can be told when there is nothing to compare with."""
    return (("row_damaged", row[0], row[1][CRC_BYTES:], None) for row in stored if not _is_whole(row))
