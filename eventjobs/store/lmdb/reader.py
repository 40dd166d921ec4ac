"""Reading one consistent state of an LMDB store. Every value's checksum is checked on the way."""

from __future__ import annotations

from collections.abc import Iterator

import lmdb
import msgspec
from attrs import frozen

from eventjobs.domain.events import Record
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.projection import Key, Table, Value
from eventjobs.store.codec import decode_content, decode_job, decode_record, unseal
from eventjobs.store.contract import Corrupt, Head
from eventjobs.store.indexes import DUE, EXPIRIES, JOBS
from eventjobs.store.keys import NUMBER_MAX
from eventjobs.store.lmdb.tables import HEAD_KEY, Tables, key_position, node_key, position_key
from eventjobs.store.merkle import NODE_LEVELS, Frontier, leaf_hash, node_hash
from eventjobs.store.proofs import ProvesItsLog

COUNTER_BYTES = 8


@frozen
class StoredHead:
    """What the store keeps of the log's end: time of the newest record (microseconds) and the tree's frontier."""

    last_time: int
    frontier: Frontier

    def encode(self) -> bytes:
        return msgspec.msgpack.encode((self.frontier.size, self.last_time, self.frontier.peaks))

    @classmethod
    def decode(cls, value: bytes) -> StoredHead:
        size, last_time, peaks = msgspec.msgpack.decode(value)
        return cls(last_time, Frontier(size, peaks))

    def head(self) -> Head:
        return Head(self.frontier.size, self.frontier.root())


class LmdbReader(ProvesItsLog):
    """See store.contract.Reader. Valid as long as the LMDB transaction it was made of."""

    def __init__(self, tables: Tables, txn: lmdb.Transaction) -> None:
        self._tables, self._txn = tables, txn

    def stored_head(self) -> StoredHead:
        value = self._get(self._tables.meta, HEAD_KEY, "head")
        if value is None:
            raise Corrupt("meta: the head of the log is missing")
        return StoredHead.decode(value)

    def head(self) -> Head:
        return self.stored_head().head()

    def job(self, job_id: str) -> Job | None:
        row = self.row(JOBS, (job_id,))
        return None if row is None else decode_job(row)

    def content(self, ref: ContentRef) -> bytes:
        value = self._get(self._tables.contents, position_key(ref.position), "contents")
        if value is None:
            raise Corrupt(f"contents: the content of position {ref.position} is missing")
        return decode_content(value).text

    def record(self, position: int) -> Record | None:
        text = self.record_text(position)
        return None if text is None else decode_record(text)

    def record_text(self, position: int) -> bytes | None:
        """The bytes of a record as they were written."""
        return self._get(self._tables.log, position_key(position), "log")

    def subtree(self, level: int, index: int) -> bytes:
        """From the nearest kept nodes below: at most 128 reads. Raises Corrupt when one of them is missing."""
        above = level % NODE_LEVELS
        kept = level - above
        hashes = [self._kept(kept, place) for place in range(index << above, index + 1 << above)]
        while len(hashes) > 1:
            hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
        return hashes[0]

    def _kept(self, level: int, index: int) -> bytes:
        if level == 0:
            text = self.record_text(index + 1)
            if text is None:
                raise Corrupt(f"log: position {index + 1} is missing")
            return leaf_hash(text)
        node = self._get(self._tables.tree, node_key(level, index), "tree")
        if node is None:
            raise Corrupt(f"tree: node {index} of level {level} is missing")
        return node

    def records(self, after: int, limit: int) -> list[Record]:
        found: list[Record] = []
        with self._txn.cursor(db=self._tables.log) as cursor:
            more = cursor.set_range(position_key(after + 1))
            while more and len(found) < limit:
                key, stored = cursor.item()
                if key_position(key) != after + 1 + len(found):
                    raise Corrupt(f"log: position {after + 1 + len(found)} is missing")
                found.append(decode_record(unseal(key, stored, "log")))
                more = cursor.next()
        return found

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]]] | None:
        time, lanes = None, set()
        for (run_at, _), lane in self.rows(DUE, (), (after, NUMBER_MAX)):
            if time is not None and run_at != time:
                break
            time = run_at
            queue, _, kind = lane.decode().partition("\0")
            lanes.add((queue, kind))
        return None if time is None else (time, sorted(lanes))

    def next_expiry(self) -> int | None:
        return next((expires_at for (expires_at, _), _ in self.rows(EXPIRIES)), None)

    def row(self, table: Table, key: Key) -> Value | None:
        database, codec = self._tables.by_table[table]
        value = self._get(database, codec.encode(key), table.name)
        if value is None or not table.counters:
            return value
        return int.from_bytes(value, "big", signed=True)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        database, codec = self._tables.by_table[table]
        start = codec.encode_prefix(prefix)
        with self._txn.cursor(db=database) as cursor:
            edge = None if beyond is None else codec.encode(beyond)
            first = start if edge is None else edge + b"\0"
            more = _seek_below(cursor, start, edge) if reverse else cursor.set_range(first)
            while more:
                key, stored = cursor.item()
                if not key.startswith(start):
                    return
                value = unseal(key, stored, table.name)
                yield codec.decode(key), int.from_bytes(value, "big", signed=True) if table.counters else value
                more = cursor.prev() if reverse else cursor.next()

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        database, codec = self._tables.by_table[table]
        start = codec.encode_prefix(prefix)
        with self._txn.cursor(db=database) as cursor:
            more = cursor.set_range(start)
            while more:
                key, stored = cursor.item()
                if not key.startswith(start):
                    return
                value = unseal(key, stored, table.name)
                yield codec.decode(key), int.from_bytes(value, "big", signed=True) if table.counters else value
                more = cursor.set_range(codec.end_of_group(key, names))

    def _get(self, database: object, key: bytes, where: str) -> bytes | None:
        stored = self._txn.get(key, db=database)
        return None if stored is None else unseal(key, stored, where)


def _seek_below(cursor: lmdb.Cursor, prefix: bytes, edge: bytes | None) -> bool:
    """Set the cursor on the last key with the prefix, or on the last below the edge."""
    target = _after(prefix) if edge is None else edge
    if target is None or not cursor.set_range(target):
        return cursor.last()
    return cursor.prev()


def _after(prefix: bytes) -> bytes | None:
    """The smallest byte string above all that start with the prefix; None when there is none."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
