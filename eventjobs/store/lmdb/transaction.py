"""The one write transaction: appending to the log and keeping every projection in step, in one LMDB commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile

import lmdb
import structlog

from eventjobs.domain.content import Content
from eventjobs.domain.decide import KeyHolder
from eventjobs.domain.events import ERASING, JobLeased, Record, erased_positions
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Projection, Table, Value
from eventjobs.store.appending import Appending
from eventjobs.store.codec import encode_content, seal, unseal
from eventjobs.store.contract import Corrupt, Grant, StorageFull
from eventjobs.store.indexes import EXPIRIES, KEYS, JobRows, attempt_errors, remembered_request, text_digest
from eventjobs.store.lmdb.reader import COUNTER_BYTES, LmdbReader, StoredHead
from eventjobs.store.lmdb.search import absent
from eventjobs.store.lmdb.tables import (
    EVENT_FORMATS,
    HEAD_KEY,
    PROJECTION_PREFIX,
    Tables,
    encode_progress,
    position_key,
    raise_format,
)
from eventjobs.store.lmdb.tree import keep_nodes
from eventjobs.store.merkle import leaf_hash
from eventjobs.store.ready import due_places

Encode = Callable[[Key], bytes]

log = structlog.get_logger("eventjobs.store")


class LmdbTransaction(Appending, LmdbReader):
    """See store.contract.Transaction. Owned by the writer thread; ended by the engine."""

    def __init__(
        self,
        tables: Tables,
        txn: lmdb.Transaction,
        projections: Sequence[Projection],
        damaged: set[str] | None = None,
    ) -> None:
        """`damaged` names projections found damaged since the store was opened; they lose their checkpoints, so that
        the next start makes them anew."""
        super().__init__(tables, txn)
        self._projections = projections
        self._damaged = set() if damaged is None else damaged
        self._deltas: defaultdict[Table, dict[Key, int]] = defaultdict(dict)
        self._places: dict[Table, tuple[lmdb.Cursor, Encode]] = {}
        self._log, self._contents = txn.cursor(db=tables.log), txn.cursor(db=tables.contents)
        stored = super().stored_head()
        self.last_time = stored.last_time
        self._frontier = stored.frontier
        self._begun_at = stored.frontier.size

    def stored_head(self) -> StoredHead:
        return StoredHead(self.last_time, self._frontier)

    def now(self, wanted: int) -> int:
        return max(wanted, self.last_time)

    # Reading for decisions ------------------------------------------------------------------------------------

    def key_holder(self, idempotency_key: str) -> KeyHolder | None:
        job_id = self.row(KEYS, (text_digest(idempotency_key),))
        if job_id is None:
            return None
        job = self.kept(job_id.decode())
        if job is None:
            raise Corrupt(f"jobs: an idempotency key names job {job_id.decode()}, which is not there")
        return KeyHolder(job, None if job.spec.payload is None else self.content(job.spec.payload))

    def candidates(self, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int) -> list[Job]:
        places = due_places(self, queues, kinds, now)
        return list(islice(self._sound(place[3] for place in places), limit))

    def expired(self, now: int, limit: int) -> list[Job]:
        over = takewhile(lambda row: row[0][0] <= now, self.rows(EXPIRIES))
        return list(islice(self._sound(job_id.decode() for _, job_id in over), limit))

    def _sound(self, job_ids: Iterable[str]) -> Iterator[Job]:
        """The jobs an index names. A damaged row must not stand in the way of the others: it is told of and passed
        over, and job rows are made anew from the log at the next start."""
        for job_id in job_ids:
            try:
                yield self._indexed_job(job_id)
            except Corrupt as error:
                log.error("damaged_job_row", job_id=job_id, error=str(error), hint="a restart makes it anew")
                self._damaged.add(JobRows.name)

    def grants(self, worker: str, request_id: str, now: int) -> list[Grant] | None:
        position = remembered_request(self, text_digest(worker, request_id), now)
        return None if position is None else list(self._grants_from(position, worker, request_id))

    def _grants_from(self, position: int, worker: str, request_id: str) -> Iterator[Grant]:
        """A request's grants were appended by one command: they are the unbroken run of its records."""
        while (record := self.record(position)) is not None:
            event = record.event
            if not isinstance(event, JobLeased) or (event.worker, event.request_id) != (worker, request_id):
                return
            yield Grant(record.job_id, event.token)
            position += 1

    def kept(self, job_id: str) -> Job | None:
        return self._kept(job_id)

    def errors_of(self, job_id: str) -> tuple[int, ...]:
        return attempt_errors(self, job_id)

    def _indexed_job(self, job_id: str) -> Job:
        job = self.job(job_id)
        if job is None:
            raise Corrupt(f"jobs: an index names job {job_id}, which is not there")
        return job

    # Writing --------------------------------------------------------------------------------------------------

    def _log_size(self) -> int:
        return self._frontier.size

    def _take(self, before: Job | None, record: Record, text: bytes, after: Job, content: Content | None) -> None:
        """Put a record where it belongs, with all that follows from it."""
        key = position_key(record.position)
        try:
            _append(self._log, key, text)
            if content is not None:
                _append(self._contents, key, encode_content(content))
            if type(record.event) in ERASING:
                for erased in erased_positions(record.event):
                    self._txn.delete(position_key(erased), db=self._tables.contents)
            if EVENT_FORMATS and (wanted := EVENT_FORMATS.get((record.event.type, record.event.format_version))):
                raise_format(self._txn, self._tables.meta, wanted)
            self.project(self._projections, before, record, after)
            if nodes := self._frontier.append(leaf_hash(text)):
                keep_nodes(self._tables, self._txn, nodes, record.position)
        except lmdb.MapFullError as error:
            raise _map_full(error) from error
        self.last_time = record.time

    def project(self, projections: Iterable[Projection], before: Job | None, record: Record, after: Job) -> None:
        """Bring the projections up to the record."""
        places, deltas = self._places, self._deltas
        for projection in projections:
            for table, key, value in projection.project(self, before, record, after):
                if table.counters:
                    of_table = deltas[table]
                    of_table[key] = of_table.get(key, 0) + value
                    continue
                cursor, encode = places.get(table) or self._place(table)
                encoded = encode(key)
                if value is not None:
                    cursor.put(encoded, seal(encoded, value), overwrite=not table.first_stays)
                elif not (cursor.set_key(encoded) and cursor.delete()):
                    raise Corrupt(f"{table.name}: a row that must be there is missing: {key}")

    def _place(self, table: Table) -> tuple[lmdb.Cursor, Encode]:
        """A cursor in a table, and what makes keys for it. It stays where it was used last, and what follows is mostly
        near: that is found without a search from the root, which takes longer than all else about writing a row."""
        database, codec = self._tables.by_table[table]
        place = self._places[table] = self._txn.cursor(db=database), codec.encode
        return place

    def finish(self) -> None:
        """Write what is kept to the end of a transaction: counters, head and checkpoints."""
        try:
            self._flush_counters()
            if self._frontier.size > self._begun_at:
                self._put(self._tables.meta, HEAD_KEY, StoredHead(self.last_time, self._frontier).encode())
                for projection in self._projections:
                    self.set_progress(projection, self._frontier.size)
            for name in self._damaged:
                self._txn.delete(PROJECTION_PREFIX + name.encode(), db=self._tables.meta)
        except lmdb.MapFullError as error:
            raise _map_full(error) from error

    def set_progress(self, projection: Projection, checkpoint: int) -> None:
        key = PROJECTION_PREFIX + projection.name.encode()
        self._put(self._tables.meta, key, encode_progress(projection.version, checkpoint))

    def row(self, table: Table, key: Key) -> Value | None:
        if table.counters:
            self._flush_counters()
            return super().row(table, key)
        cursor, encode = self._places.get(table) or self._place(table)
        encoded = encode(key)
        if cursor.set_key(encoded):
            return unseal(encoded, cursor.value(), table.name)
        return absent(cursor, encoded, table.name)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        if table.counters:
            self._flush_counters()
        return super().rows(table, prefix, beyond, reverse)

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        if table.counters:
            self._flush_counters()
        return super().heads(table, names, prefix)

    def _flush_counters(self) -> None:
        """Counters change many times in a commit and are written once."""
        for table, deltas in self._deltas.items():
            database, codec = self._tables.by_table[table]
            for key, delta in deltas.items():
                encoded = codec.encode(key)
                stored = self._get(database, encoded, table.name)
                count = delta + (0 if stored is None else int.from_bytes(stored, "big", signed=True))
                self._put(database, encoded, count.to_bytes(COUNTER_BYTES, "big", signed=True))
            deltas.clear()

    def _put(self, database: object, key: bytes, value: bytes) -> None:
        self._txn.put(key, seal(key, value), db=database)


def _append(cursor: lmdb.Cursor, key: bytes, value: bytes) -> None:
    if not cursor.put(key, seal(key, value), append=True):
        raise Corrupt(f"position {int.from_bytes(key)} is not the next one: the store's head is not its end")


def _map_full(error: lmdb.MapFullError) -> StorageFull:
    """A full map: the whole transaction must be dropped."""
    return StorageFull(f"the store's map is full ({error}); restart with a larger --map-size")
