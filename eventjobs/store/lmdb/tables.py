"""The named databases of an environment and how projection tables map onto them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

import lmdb
import msgspec

from eventjobs.domain.projection import Projection, Table
from eventjobs.store.archive import Archive
from eventjobs.store.codec import seal, unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.keys import KeyCodec

T = TypeVar("T")

FORMAT_VERSION = 2
"""Format of the store as a whole. A store with a higher one is refused, untouched."""
WHOLE_FORMAT, ARCHIVED_FORMAT = 1, 2
"""The format of a store that has all of its log, and of one whose first records are in the archive alone."""
EVENT_FORMATS: dict[tuple[str, int], int] = {}
"""By type and format version: the format of stores that an event came with, if it is younger than those of format 1.

A store has that format from the first such event on, so that an older program refuses it when it opens it, and not
when it meets the event deep in the log. Whoever adds an event, or raises the version of one, raises FORMAT_VERSION and
names the event here; in a database the schema's `oldest_program` does the same.
"""

MAX_DATABASES = 64

META, LOG, CONTENTS, TREE, SCRATCH = "meta", "log", "contents", "tree", "rebuild_jobs"
FORMAT_KEY, HEAD_KEY, TREE_KEY, PROJECTION_PREFIX = b"format", b"head", b"tree", b"projection:"
ARCHIVED_KEY = b"archived"

_POSITION = struct.Struct(">Q")
_NODE = struct.Struct(">BQ")


def position_key(position: int) -> bytes:
    """Key of the log and of the contents: the position as 8 bytes, big-endian."""
    return _POSITION.pack(position)


def key_position(key: bytes) -> int:
    """The position that `position_key` made a key of."""
    return _POSITION.unpack(key)[0]


def node_key(level: int, index: int) -> bytes:
    """Key of a node of the tree: its level in 1 byte, its index among those of the level in 8, big-endian."""
    return _NODE.pack(level, index)


def encode_progress(version: int, checkpoint: int) -> bytes:
    """How far something that is derived from the log has come: the version of its rule, the position it has seen."""
    return msgspec.msgpack.encode((version, checkpoint))


def decode_progress(value: bytes) -> tuple[int, int]:
    """Version and checkpoint, from what `encode_progress` stored. Raises Corrupt."""
    return _decoded(value, tuple[int, int])


def decode_format(stored: bytes) -> int:
    """The format of a store, from what is stored of it. Raises Corrupt."""
    return _decoded(unseal(FORMAT_KEY, stored, META), int)


def _decoded(value: bytes, sort: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(value, type=sort)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{META}: a value cannot be read: {error}") from error


def archived_size(txn: lmdb.Transaction, meta: object) -> int:
    """How many records, from the first on, have left the database `log`: they are in the archive alone."""
    return decode_archived_size(txn.get(ARCHIVED_KEY, db=meta))


def decode_archived_size(stored: bytes | None) -> int:
    """The same from what is stored of it, None for nothing. Raises Corrupt."""
    return 0 if stored is None else _decoded(unseal(ARCHIVED_KEY, stored, META), int)


def set_archived_size(txn: lmdb.Transaction, meta: object, size: int) -> None:
    """Say so. From then on the store has at least the format that programs without an archive refuse."""
    txn.put(ARCHIVED_KEY, seal(ARCHIVED_KEY, msgspec.msgpack.encode(size)), db=meta)
    raise_format(txn, meta, ARCHIVED_FORMAT)


def raise_format(txn: lmdb.Transaction, meta: object, wanted: int) -> None:
    """Let the store have this format, if it does not have a higher one."""
    if format_of(txn, meta) < wanted:
        set_format(txn, meta, wanted)


def format_of(txn: lmdb.Transaction, meta: object) -> int:
    """The store's format. Raises Corrupt."""
    return decode_format(txn.get(FORMAT_KEY, db=meta))


def set_format(txn: lmdb.Transaction, meta: object, value: int) -> None:
    """Let the store have this format."""
    txn.put(FORMAT_KEY, seal(FORMAT_KEY, msgspec.msgpack.encode(value)), db=meta)


def database_name(table: Table) -> str:
    """The name of the database that holds a projection's table."""
    return f"projection/{table.name}"


class Tables:
    """The open databases: `log`, `contents`, `tree`, `meta`, `scratch`; (database, codec) by projection table.

    `made` names those that were not there. `archive` has the records that have left `log`.
    """

    def __init__(
        self,
        env: lmdb.Environment,
        projections: Sequence[Projection],
        txn: lmdb.Transaction,
        archive: Archive,
        create: bool = True,
    ) -> None:
        """`create` makes those that are not there; else lmdb.NotFoundError is raised for one."""
        self.archive = archive
        with txn.cursor() as cursor:
            there = set(cursor.iternext(values=False))
        self.made: set[str] = set()

        def database(name: str) -> object:
            if name.encode() not in there:
                self.made.add(name)
            return env.open_db(name.encode(), txn=txn, create=create)

        self.meta, self.log, self.contents, self.tree = map(database, (META, LOG, CONTENTS, TREE))
        self.scratch = database(SCRATCH)
        self.by_table: dict[Table, tuple[object, KeyCodec]] = {
            table: (database(database_name(table)), KeyCodec(table))
            for projection in projections
            for table in projection.tables
        }

    def pages(self, txn: lmdb.Transaction) -> int:
        """How many pages of the file hold something: what the others held was let go, and they are used again."""
        projected = [database for database, _ in self.by_table.values()]
        databases = (self.meta, self.log, self.contents, self.tree, self.scratch, *projected)
        stats = [txn.stat(database) for database in databases]
        return sum(each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"] for each in stats)
