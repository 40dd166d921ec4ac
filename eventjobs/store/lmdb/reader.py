"""Reading one consistent state of an LMDB store.

Every row's checksum is checked on the way, and whatever is not found is shown to be absent: see search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import lmdb
import msgspec
from attrs import frozen

from eventjobs.domain.events import Record
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.projection import Key, Table, Value
from eventjobs.store.codec import decode_content, decode_job, decode_record, unseal
from eventjobs.store.contract import DUE_ROWS_MAX, Corrupt, EndingLane, Head
from eventjobs.store.indexes import DUE, EXPIRIES, JOBS, ended, ending_lanes
from eventjobs.store.keys import NUMBER_MAX
from eventjobs.store.lmdb.search import look_up, seek, seek_below
from eventjobs.store.lmdb.tables import HEAD_KEY, Tables, node_key, position_key
from eventjobs.store.merkle import NODE_LEVELS, Frontier, complete_root, leaf_hash
from eventjobs.store.proofs import ProvesItsLog
from eventjobs.store.ready import places_ahead

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
        job = self._kept(job_id)
        return None if job is None or job.retired else job

    def _kept(self, job_id: str) -> Job | None:
        row = self.row(JOBS, (job_id,))
        return None if row is None else decode_job(row)

    def content(self, ref: ContentRef) -> bytes:
        value = self._get(self._tables.contents, position_key(ref.position), "contents")
        if value is None:
            raise Corrupt(f"contents: the content of position {ref.position} is missing")
        return decode_content(value).text

    def contents(self, refs: Sequence[ContentRef]) -> dict[int, bytes]:
        return {ref.position: self.content(ref) for ref in refs}

    def record(self, position: int) -> Record | None:
        text = self.record_text(position)
        return None if text is None else decode_record(text)

    def record_text(self, position: int) -> bytes | None:
        """The bytes of a record as they were written."""
        text = self._get(self._tables.log, position_key(position), "log")
        if text is None and 1 <= position <= self._tables.archive.end:
            return self._tables.archive.texts(position - 1, 1)[0]
        if text is None and 1 <= position <= self.stored_head().frontier.size:
            raise _missing(position)
        return text

    def subtree(self, level: int, index: int) -> bytes:
        """From the nearest kept nodes below: at most 128 reads. Raises Corrupt when one of them is missing."""
        above = level % NODE_LEVELS
        kept = level - above
        return complete_root([self._node(kept, place) for place in range(index << above, index + 1 << above)])

    def _node(self, level: int, index: int) -> bytes:
        if level == 0:
            text = self.record_text(index + 1)
            if text is None:
                raise _missing(index + 1)
            return leaf_hash(text)
        node = self._get(self._tables.tree, node_key(level, index), "tree")
        if node is None:
            raise Corrupt(f"tree: node {index} of level {level} is missing")
        return node

    def records(self, after: int, limit: int) -> list[Record]:
        return [decode_record(text) for text in self.record_texts(after, limit)]

    def record_texts(self, after: int, limit: int) -> list[bytes]:
        """The bytes of up to `limit` records with positions above `after`, in order."""
        found: list[bytes] = []
        with self._txn.cursor(db=self._tables.log) as cursor:
            more = cursor.set_range(position_key(after + 1))
            if after < self._tables.archive.end and not (more and cursor.key() == position_key(after + 1)):
                found += self._tables.archive.texts(after, limit)
                more = cursor.set_range(position_key(after + 1 + len(found)))
            while more and len(found) < limit:
                key, stored = cursor.item()
                if key != position_key(after + 1 + len(found)):
                    raise _missing(after + 1 + len(found))
                found.append(unseal(key, stored, "log"))
                more = cursor.next()
        if len(found) < limit and after + len(found) < self.stored_head().frontier.size:
            raise _missing(after + 1 + len(found))
        return found

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]] | None] | None:
        time, lanes = None, set()
        for count, ((run_at, _), lane) in enumerate(self.rows(DUE, (), (after, NUMBER_MAX))):
            if time is not None and run_at != time:
                break
            if count == DUE_ROWS_MAX:
                return time, None
            time = run_at
            queue, _, kind = lane.decode().partition("\0")
            lanes.add((queue, kind))
        return None if time is None else (time, sorted(lanes))

    def next_expiry(self) -> int | None:
        return next((expires_at for (expires_at, _), _ in self.rows(EXPIRIES)), None)

    def ahead_of(
        self, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
    ) -> dict[tuple[str, str], int]:
        return places_ahead(self, job, wanted, now, limit)

    def ending_lanes(self, stage: str) -> Iterator[tuple[EndingLane, int]]:
        return ending_lanes(self, stage)

    def ended(self, lane: EndingLane, until: int, limit: int) -> list[str]:
        return ended(self, lane, until, limit)

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
            if reverse:
                more = seek_below(cursor, _after(start) if edge is None else edge, table.name)
            else:
                more = seek(cursor, start if edge is None else edge + b"\0", table.name)
            last = None
            while more:
                key, stored = cursor.item()
                value = unseal(key, stored, table.name)
                if last is not None and (last <= key if reverse else last >= key):
                    raise Corrupt(f"{table.name}: key {key.hex()} is out of order")
                if not key.startswith(start):
                    return
                yield codec.decode(key), int.from_bytes(value, "big", signed=True) if table.counters else value
                last = key
                more = cursor.prev() if reverse else cursor.next()

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        database, codec = self._tables.by_table[table]
        start = codec.encode_prefix(prefix)
        with self._txn.cursor(db=database) as cursor:
            more = seek(cursor, start, table.name)
            while more:
                key, stored = cursor.item()
                value = unseal(key, stored, table.name)
                if not key.startswith(start):
                    return
                yield codec.decode(key), int.from_bytes(value, "big", signed=True) if table.counters else value
                more = seek(cursor, codec.end_of_group(key, names), table.name)

    def _get(self, database: object, key: bytes, where: str) -> bytes | None:
        return look_up(self._txn, database, key, where)


def _missing(position: int) -> Corrupt:
    return Corrupt(f"log: position {position} is missing")


def _after(prefix: bytes) -> bytes | None:
    """The smallest byte string above all that start with the prefix; None when there is none."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
