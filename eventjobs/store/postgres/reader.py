"""Reading one consistent state of a store in a database. Every value's checksum is checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
from attrs import frozen

from eventjobs.domain.events import Record
from eventjobs.domain.intake import Asked
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.projection import Key, Table, Value
from eventjobs.store.codec import decode_content, decode_job, decode_record, unseal
from eventjobs.store.contract import DUE_ROWS_MAX, Corrupt, EndingLane, Head
from eventjobs.store.indexes import ended, ending_lanes
from eventjobs.store.keys import KeyCodec, uuid_bytes
from eventjobs.store.merkle import NODE_LEVELS, Frontier, complete_root, leaf_hash
from eventjobs.store.postgres.arrays import Numbers, Texts
from eventjobs.store.postgres.intake import Low, read_asked
from eventjobs.store.postgres.schema import projection_table
from eventjobs.store.proofs import ProvesItsLog

STRETCH_ROWS = 64
"""Rows of a walk that are fetched first; each further time it is twice as many, up to STRETCH_ROWS_MAX."""
STRETCH_ROWS_MAX = 4_096

AHEAD = """
SELECT l.queue, l.kind, sum((
    SELECT count(*) FROM (
        SELECT FROM eventjobs.jobs j
        WHERE j.waiting AND j.queue = l.queue AND j.kind = l.kind AND j.rank = l.rank AND j.run_at <= %s
          AND (l.rank < %s OR (j.run_at, j.position) < (%s, %s)) LIMIT %s
    ) AS due
))::bigint
FROM eventjobs.lanes l JOIN unnest(%s, %s) AS asked(queue, kind) USING (queue, kind) WHERE l.rank <= %s
GROUP BY l.queue, l.kind ORDER BY l.queue, l.kind
"""
HEAD = "SELECT size, time, value FROM eventjobs.heads ORDER BY size DESC LIMIT 1"


def position_key(position: int) -> bytes:
    """What a record's and a content's checksum covers beside the value: the position as 8 bytes, big-endian."""
    return position.to_bytes(8)


def node_key(level: int, index: int) -> bytes:
    """The same of a node of the tree: its level in 1 byte, its index in 8."""
    return level.to_bytes(1) + index.to_bytes(8)


def missing(table: str, key: str) -> Corrupt:
    """What is raised for a row that must be there."""
    return Corrupt(f"{table}: {key} is missing")


class Asks(Protocol):
    """What a reader puts its questions to."""

    def fetch(self, query: str, parameters: tuple = ()) -> list[tuple]: ...


@frozen
class StoredHead:
    """The log's end: the time of its newest record (microseconds) and the tree's frontier."""

    last_time: int
    frontier: Frontier

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self.frontier.peaks)

    @classmethod
    def of_rows(cls, rows: list[tuple]) -> StoredHead:
        """From what HEAD finds: nothing, for an empty log."""
        if not rows:
            return cls(0, Frontier())
        size, time, peaks = rows[0]
        try:
            return cls(time, Frontier(size, msgspec.msgpack.decode(peaks, type=list[bytes])))
        except (msgspec.DecodeError, ValueError) as error:
            raise Corrupt(f"heads: the head of size {size} cannot be read: {error}") from error


class PostgresReader(ProvesItsLog):
    """See store.contract.Reader. Valid as long as the transaction it asks in."""

    def __init__(
        self, asks: Asks, codecs: dict[Table, KeyCodec], head: StoredHead, intake_low: Low | None = None
    ) -> None:
        """`intake_low`: where to read the intake from, the beginning when left out."""
        self._asks, self._codecs, self._head = asks, codecs, head
        self._intake_low = intake_low or Low()

    def _fetch(self, query: str, parameters: tuple = ()) -> list[tuple]:
        return self._asks.fetch(query, parameters)

    def stored_head(self) -> StoredHead:
        return self._head

    def head(self) -> Head:
        frontier = self.stored_head().frontier
        return Head(frontier.size, frontier.root())

    def job(self, job_id: str) -> Job | None:
        job = self.kept(job_id)
        return None if job is None or job.retired else job

    def kept(self, job_id: str) -> Job | None:
        """The job, retired or not."""
        key = uuid_bytes(job_id)
        found = self._fetch("SELECT value FROM eventjobs.jobs WHERE id = %s::uuid", (job_id,))
        return decode_job(unseal(key, found[0][0], "jobs")) if found else None

    def content(self, ref: ContentRef) -> bytes:
        return self.contents([ref])[ref.position]

    def contents(self, refs: Sequence[ContentRef]) -> dict[int, bytes]:
        if not refs:
            return {}
        positions = Numbers([ref.position for ref in refs])
        found = dict(
            self._fetch("SELECT position, value FROM eventjobs.contents WHERE position = ANY (%s)", (positions,))
        )
        for ref in refs:
            if ref.position not in found:
                raise missing("contents", f"the content of position {ref.position}")
        return {
            position: decode_content(unseal(position_key(position), stored, "contents")).text
            for position, stored in found.items()
        }

    def record(self, position: int) -> Record | None:
        text = self.record_text(position)
        return None if text is None else decode_record(text)

    def record_text(self, position: int) -> bytes | None:
        if not 1 <= position <= self.stored_head().frontier.size:
            return None
        return self.record_texts(position - 1, 1)[0]

    def records(self, after: int, limit: int) -> list[Record]:
        return [decode_record(text) for text in self.record_texts(after, limit)]

    def record_texts(self, after: int, limit: int) -> list[bytes]:
        """The bytes of up to `limit` records with positions above `after`. Raises Corrupt when one is missing."""
        limit = min(limit, self.stored_head().frontier.size - after)
        if limit <= 0:
            return []
        query = "SELECT position, value FROM eventjobs.log WHERE position > %s AND position <= %s ORDER BY position"
        found = self._fetch(query, (after, after + limit))
        for wanted, (position, _) in enumerate(found, after + 1):
            if position != wanted:
                raise missing("log", f"position {wanted}")
        if len(found) < limit:
            raise missing("log", f"position {after + len(found) + 1}")
        return [
            unseal(position_key(position), stored, f"the record at position {position}") for position, stored in found
        ]

    def subtree(self, level: int, index: int) -> bytes:
        """From the nearest kept nodes below: one question. Raises Corrupt when one of them is missing."""
        above = level % NODE_LEVELS
        kept, first, count = level - above, index << above, 1 << above
        if kept == 0:
            return complete_root([leaf_hash(text) for text in self.record_texts(first, count)])
        query = "SELECT index, value FROM eventjobs.tree WHERE level = %s AND index = ANY (%s) ORDER BY index"
        found = dict(self._fetch(query, (kept, Numbers(range(first, first + count)))))
        for place in range(first, first + count):
            if place not in found:
                raise missing("tree", f"node {place} of level {kept}")
        return complete_root([unseal(node_key(kept, place), found[place], "tree") for place in sorted(found)])

    def ending_lanes(self, stage: str) -> Iterator[tuple[EndingLane, int]]:
        return ending_lanes(self, stage)

    def ended(self, lane: EndingLane, until: int, limit: int) -> list[str]:
        return ended(self, lane, until, limit)

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]] | None] | None:
        found = self._fetch(
            "SELECT min(run_at) FROM eventjobs.jobs WHERE scheduled AND run_at > %s",
            (after,),
        )
        time = found[0][0]
        if time is None:
            return None
        query = "SELECT queue, kind FROM eventjobs.jobs WHERE scheduled AND run_at = %s LIMIT %s"
        lanes = self._fetch(query, (time, DUE_ROWS_MAX + 1))
        return time, None if len(lanes) > DUE_ROWS_MAX else sorted(set(lanes))

    def next_expiry(self) -> int | None:
        return self._fetch("SELECT min(expires_at) FROM eventjobs.jobs WHERE expires_at IS NOT NULL")[0][0]

    def ahead_of(
        self, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
    ) -> dict[tuple[str, str], int]:
        rank = -job.spec.priority
        known = self._fetch("SELECT DISTINCT queue, kind FROM eventjobs.lanes WHERE rank <= %s", (rank,))
        lanes = sorted(filter(wanted, known))
        queues, kinds = Texts([queue for queue, _ in lanes]), Texts([kind for _, kind in lanes])
        counted = self._fetch(AHEAD, (now, rank, job.run_at, job.spec.position, limit, queues, kinds, rank))
        counts: dict[tuple[str, str], int] = {}
        for queue, kind, count in counted:
            if taken := min(int(count), limit):
                counts[queue, kind] = taken
                limit -= taken
        return counts

    def asked(self, limit: int, size: int) -> list[Asked]:
        return read_asked(self._fetch, self._intake_low, limit, size)

    # Projection tables ----------------------------------------------------------------------------------------

    def row(self, table: Table, key: Key) -> Value | None:
        encoded = self._codecs[table].encode(key)
        found = self._page(table, "key = %s", (encoded,), "", 1)
        return self._value(table, *found[0]) if found else None

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        codec = self._codecs[table]
        low, high = _bounds(codec.encode_prefix(prefix))
        if beyond is not None:
            low, high = (low, codec.encode(beyond)) if reverse else (codec.encode(beyond) + b"\0", high)
        stretch = STRETCH_ROWS
        while True:
            found = self._stretch(table, low, high, reverse, stretch)
            for key, stored in found:
                yield codec.decode(key), self._value(table, key, stored)
            if len(found) < stretch:
                return
            low, high = (low, found[-1][0]) if reverse else (found[-1][0] + b"\0", high)
            stretch = min(2 * stretch, STRETCH_ROWS_MAX)

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        codec = self._codecs[table]
        low, high = _bounds(codec.encode_prefix(prefix))
        while found := self._stretch(table, low, high, False, 1):
            key, stored = found[0]
            yield codec.decode(key), self._value(table, key, stored)
            low = codec.end_of_group(key, names)

    def _stretch(self, table: Table, low: bytes, high: bytes | None, reverse: bool, limit: int) -> list[tuple]:
        """Up to `limit` rows with `low` <= key < `high`, from either side."""
        order = "DESC" if reverse else ""
        if high is None:
            return self._page(table, "key >= %s", (low,), order, limit)
        return self._page(table, "key >= %s AND key < %s", (low, high), order, limit)

    def _page(self, table: Table, condition: str, bounds: tuple, order: str, limit: int) -> list[tuple]:
        if not table.counters:
            query = f"SELECT key, value FROM {projection_table(table)} WHERE {condition} ORDER BY key {order} LIMIT %s"
            return self._fetch(query, (*bounds, limit))
        of_table = f"WHERE name = %s AND {condition}"
        query = (
            f"SELECT key, sum(value)::text FROM (SELECT key, value FROM eventjobs.counters {of_table} UNION ALL "
            f"SELECT key, value FROM eventjobs.counter_deltas {of_table}) AS parts "
            f"GROUP BY key ORDER BY key {order} LIMIT %s"
        )
        return self._fetch(query, (table.name, *bounds, table.name, *bounds, limit))

    def _value(self, table: Table, key: bytes, stored: bytes | str) -> Value:
        return int(stored) if table.counters else unseal(key, stored, table.name)


def _bounds(prefix: bytes) -> tuple[bytes, bytes | None]:
    """The byte strings that start with the prefix are those from the first up to, and without, the second."""
    cut = prefix.rstrip(b"\xff")
    return prefix, cut[:-1] + bytes([cut[-1] + 1]) if cut else None
