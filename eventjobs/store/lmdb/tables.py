"""The named databases of an environment and how projection tables map onto them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import lmdb
import msgspec

from eventjobs.domain.projection import Projection, Table
from eventjobs.store.keys import KeyCodec

FORMAT_VERSION = 1
"""Format of the store as a whole. A store with a higher one is refused, untouched."""

MAX_DATABASES = 64

META, LOG, CONTENTS, TREE, SCRATCH = "meta", "log", "contents", "tree", "rebuild_jobs"
FORMAT_KEY, HEAD_KEY, TREE_KEY, PROJECTION_PREFIX = b"format", b"head", b"tree", b"projection:"

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
    """Version and checkpoint, from what `encode_progress` stored."""
    version, checkpoint = msgspec.msgpack.decode(value)
    return version, checkpoint


def database_name(table: Table) -> str:
    """The name of the database that holds a projection's table."""
    return f"projection/{table.name}"


class Tables:
    """The open databases: `log`, `contents`, `tree`, `meta`, `scratch`; (database, codec) by projection table.

    `made` names those that were not there.
    """

    def __init__(
        self, env: lmdb.Environment, projections: Sequence[Projection], txn: lmdb.Transaction, create: bool = True
    ) -> None:
        """`create` makes those that are not there; else lmdb.NotFoundError is raised for one."""

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
