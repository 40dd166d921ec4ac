"""The named databases of an environment and how projection tables map onto them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import lmdb

from eventjobs.domain.projection import Projection, Table
from eventjobs.store.keys import KeyCodec

FORMAT_VERSION = 1
"""Format of the store as a whole. A store with a higher one is refused, untouched."""

MAX_DATABASES = 64

META, LOG, CONTENTS, SCRATCH = "meta", "log", "contents", "rebuild_jobs"
FORMAT_KEY, HEAD_KEY, PROJECTION_PREFIX = b"format", b"head", b"projection:"

_POSITION = struct.Struct(">Q")


def position_key(position: int) -> bytes:
    """Key of the log and of the contents: the position as 8 bytes, big-endian."""
    return _POSITION.pack(position)


def key_position(key: bytes) -> int:
    """The position that `position_key` made a key of."""
    return _POSITION.unpack(key)[0]


class Tables:
    """The open databases: `log`, `contents`, `meta`, `scratch`; (database, codec, is-counters) by projection table."""

    def __init__(self, env: lmdb.Environment, projections: Sequence[Projection], txn: lmdb.Transaction | None) -> None:
        def database(name: str) -> object:
            return env.open_db(name.encode(), txn=txn, create=txn is not None)

        self.meta, self.log, self.contents = database(META), database(LOG), database(CONTENTS)
        self.scratch = database(SCRATCH)
        self.by_table: dict[Table, tuple[object, KeyCodec]] = {
            table: (database(f"projection/{table.name}"), KeyCodec(table))
            for projection in projections
            for table in projection.tables
        }
