"""Parameters of a statement that are whole columns: arrays in PostgreSQL's binary form, made in one go.

A commit writes some thousand values; turned into text one by one they would cost more than all the rest of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = struct.Struct(">iiIii")  # dimensions, whether there are nulls, type of the elements, how many, first index
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i")
_EMPTY = struct.Struct(">iiI")


class Column:
    """A column of values as a parameter. Each kind of column knows its types by PostgreSQL's numbers."""

    ARRAY: ClassVar[int]
    ELEMENT: ClassVar[int]

    def __init__(self, count: int, body: bytes, nulls: bool = False) -> None:
        if count:
            self.data = _HEADER.pack(1, nulls, self.ELEMENT, count, 1) + body
        else:
            self.data = _EMPTY.pack(0, 0, self.ELEMENT)


class Bytes(Column):
    """bytea[]; None is NULL."""

    ARRAY, ELEMENT = 1001, 17

    def __init__(self, values: Sequence[bytes | None]) -> None:
        super().__init__(len(values), *_of_bytes(values))


class Texts(Column):
    """text[]; None is NULL."""

    ARRAY, ELEMENT = 1009, 25

    def __init__(self, values: Sequence[str | None]) -> None:
        super().__init__(len(values), *_of_bytes([None if value is None else value.encode() for value in values]))


class Uuids(Column):
    """uuid[], from the 16 bytes of each."""

    ARRAY, ELEMENT = 2951, 2950

    def __init__(self, values: Sequence[bytes]) -> None:
        super().__init__(len(values), *_of_bytes(values))


class Numbers(Column):
    """bigint[]; None is NULL."""

    ARRAY, ELEMENT = 1016, 20

    def __init__(self, values: Sequence[int | None]) -> None:
        nulls = None in values
        if nulls:
            body = b"".join([_NULL if value is None else struct.pack(">iq", 8, value) for value in values])
        else:
            flat = [each for value in values for each in (8, value)]
            body = struct.pack(">" + "iq" * len(values), *flat)
        super().__init__(len(values), body, nulls)


class Flags(Column):
    """boolean[]"""

    ARRAY, ELEMENT = 1000, 16

    def __init__(self, values: Sequence[bool]) -> None:
        super().__init__(len(values), b"".join([b"\0\0\0\1\1" if value else b"\0\0\0\1\0" for value in values]))


def _of_bytes(values: Sequence[bytes | None]) -> tuple[bytes, bool]:
    pack = _LENGTH.pack
    nulls = None in values
    parts = [_NULL if value is None else pack(len(value)) + value for value in values]
    return b"".join(parts), nulls


class _ColumnDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Column) -> bytes:
        return obj.data


def register(connection: psycopg.Connection) -> None:
    """Let a connection take columns as parameters."""
    for kind in (Bytes, Texts, Uuids, Numbers, Flags):
        dumper = type(f"{kind.__name__}Dumper", (_ColumnDumper,), {"oid": kind.ARRAY})
        connection.adapters.register_dumper(kind, dumper)
