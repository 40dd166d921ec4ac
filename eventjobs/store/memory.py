"""The memory engine: the contract of engines, done the plainest way there is. Nothing outlives the process.

It is the reference that other engines are held against, and a fast store for tests. Questions are answered by
looking through everything and sorting; a transaction works on a copy of the whole state, which a commit puts in
place of the old one. Read models are kept by the same rules as everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attrs import define, field

from eventjobs.domain.content import Content, ContentDigest
from eventjobs.domain.decide import KeyHolder
from eventjobs.domain.events import ERASING, JobLeased, Record, erased_positions
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.limits import LEASE_REQUEST_MEMORY_SECONDS, MICROSECONDS
from eventjobs.domain.projection import Key, Projection, Table, Value
from eventjobs.store.appending import Appending
from eventjobs.store.codec import decode_record
from eventjobs.store.contract import (
    BARE,
    DUE_ROWS_MAX,
    HOLDING,
    KEYED,
    NOTHING,
    Corrupt,
    EndingLane,
    Grant,
    Head,
    Needs,
)
from eventjobs.store.merkle import Frontier, leaf_hash, node_hash
from eventjobs.store.proofs import ProvesItsLog


@define
class _State:
    """All there is. Never changed once it is committed."""

    log: list[bytes] = field(factory=list)
    """Each record's text; position 1 comes first."""
    contents: dict[int, Content] = field(factory=dict)
    jobs: dict[str, Job] = field(factory=dict)
    rows: dict[Table, dict[Key, Value]] = field(factory=dict)
    frontier: Frontier = field(factory=Frontier)
    last_time: int = 0

    def copy(self) -> _State:
        rows = {table: dict(content) for table, content in self.rows.items()}
        return _State(list(self.log), dict(self.contents), dict(self.jobs), rows, self.frontier.copy(), self.last_time)


class MemoryReader(ProvesItsLog):
    """See store.contract.Reader."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def head(self) -> Head:
        return Head(self._state.frontier.size, self._state.frontier.root())

    def job(self, job_id: str) -> Job | None:
        job = self._state.jobs.get(job_id)
        return None if job is None or job.retired else job

    def content(self, ref: ContentRef) -> bytes:
        content = self._state.contents.get(ref.position)
        if content is None:
            raise Corrupt(f"contents: the content of position {ref.position} is missing")
        return content.text

    def contents(self, refs: Sequence[ContentRef]) -> dict[int, bytes]:
        return {ref.position: self.content(ref) for ref in refs}

    def record(self, position: int) -> Record | None:
        found = self.records(position - 1, 1) if position >= 1 else []
        return found[0] if found else None

    def records(self, after: int, limit: int) -> list[Record]:
        return [decode_record(text) for text in self._state.log[after : after + limit]]

    def record_text(self, position: int) -> bytes | None:
        return self._state.log[position - 1] if 1 <= position <= len(self._state.log) else None

    def subtree(self, level: int, index: int) -> bytes:
        if level == 0:
            return leaf_hash(self._state.log[index])
        return node_hash(self.subtree(level - 1, 2 * index), self.subtree(level - 1, 2 * index + 1))

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]] | None] | None:
        coming = [job for job in self._jobs() if job.waiting and job.run_at > after]
        if not coming:
            return None
        earliest = min(job.run_at for job in coming)
        first = [job for job in coming if job.run_at == earliest]
        if len(first) > DUE_ROWS_MAX:
            return earliest, None
        return earliest, sorted({(job.spec.queue, job.spec.kind) for job in first})

    def next_expiry(self) -> int | None:
        return min((job.lease.expires_at for job in self._jobs() if job.lease is not None), default=None)

    def ahead_of(
        self, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
    ) -> dict[tuple[str, str], int]:
        place = _place(job)
        lanes = sorted(
            (other.spec.queue, other.spec.kind)
            for other in self._jobs()
            if other.waiting and other.run_at <= now and _place(other) < place
        )
        return dict(Counter([lane for lane in lanes if wanted(lane)][:limit]))

    def ending_lanes(self, stage: str) -> Iterator[tuple[EndingLane, int]]:
        first: dict[EndingLane, int] = {}
        for lane, job in sorted(self._endings(), key=lambda ending: ending[1].finished_at):
            if lane.stage == stage:
                first.setdefault(lane, job.finished_at)
        return iter(sorted(first.items(), key=lambda lane: (lane[0].state, lane[0].queue, lane[0].kind)))

    def ended(self, lane: EndingLane, until: int, limit: int) -> list[str]:
        jobs = [job for at, job in self._endings() if at == lane and job.finished_at <= until]
        return [job.id for job in sorted(jobs, key=lambda job: (job.finished_at, job.spec.position))[:limit]]

    def _endings(self) -> Iterator[tuple[EndingLane, Job]]:
        for job in self._jobs():
            if job.finished_at is None:
                continue
            spec = job.spec
            if not job.retired:
                held = job.result is not None or spec.payload is not None or self.errors_of(job.id)
                yield EndingLane(HOLDING if held else BARE, job.state, spec.queue, spec.kind), job
            if spec.idempotency_key is not None:
                yield EndingLane(KEYED, job.state, spec.queue, spec.kind), job

    def errors_of(self, job_id: str) -> tuple[int, ...]:
        brought = [
            record.position
            for record in self.records(0, len(self._state.log))
            if record.job_id == job_id and isinstance(getattr(record.event, "error", None), ContentDigest)
        ]
        return tuple(position for position in brought if position in self._state.contents)

    def row(self, table: Table, key: Key) -> Value | None:
        return self._state.rows[table].get(key)

    def rows(
        self, table: Table, prefix: Key = (), beyond: Key | None = None, reverse: bool = False
    ) -> Iterator[tuple[Key, Value]]:
        content = self._state.rows[table]
        keys = [key for key in content if key[: len(prefix)] == prefix]
        if beyond is not None:
            keys = [key for key in keys if (key < beyond if reverse else key > beyond)]
        return iter([(key, content[key]) for key in sorted(keys, reverse=reverse)])

    def heads(self, table: Table, names: int, prefix: Key = ()) -> Iterator[tuple[Key, Value]]:
        first: dict[Key, tuple[Key, Value]] = {}
        for key, value in self.rows(table, prefix):
            first.setdefault(key[:names], (key, value))
        return iter(first.values())

    def _jobs(self) -> list[Job]:
        return list(self._state.jobs.values())


class MemoryTransaction(Appending, MemoryReader):
    """See store.contract.Transaction."""

    def __init__(self, state: _State, read_models: Sequence[Projection]) -> None:
        super().__init__(state)
        self._read_models = read_models

    @property
    def last_time(self) -> int:
        return self._state.last_time

    def now(self, wanted: int) -> int:
        return max(wanted, self._state.last_time)

    def key_holder(self, idempotency_key: str) -> KeyHolder | None:
        for job in self._jobs():
            if job.spec.idempotency_key == idempotency_key:
                return KeyHolder(job, None if job.spec.payload is None else self.content(job.spec.payload))
        return None

    def candidates(self, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int) -> list[Job]:
        due = [
            job
            for job in self._jobs()
            if job.waiting
            and job.run_at <= now
            and (queues is None or job.spec.queue in queues)
            and (kinds is None or job.spec.kind in kinds)
        ]
        return sorted(due, key=_place)[:limit]

    def expired(self, now: int, limit: int) -> list[Job]:
        over = [job for job in self._jobs() if job.lease is not None and job.lease.expires_at <= now]
        return sorted(over, key=lambda job: (job.lease.expires_at, job.spec.position))[:limit]

    def grants(self, worker: str, request_id: str, now: int) -> list[Grant] | None:
        oldest = now - LEASE_REQUEST_MEMORY_SECONDS * MICROSECONDS
        granted = [
            Grant(record.job_id, record.event.token)
            for record in self.records(0, len(self._state.log))
            if isinstance(record.event, JobLeased)
            and (record.event.worker, record.event.request_id) == (worker, request_id)
            and record.time > oldest
        ]
        return granted or None

    def kept(self, job_id: str) -> Job | None:
        return self._state.jobs.get(job_id)

    def _log_size(self) -> int:
        return len(self._state.log)

    def _take(self, before: Job | None, record: Record, text: bytes, after: Job, content: Content | None) -> None:
        state = self._state
        state.log.append(text)
        state.frontier.append(leaf_hash(text))
        state.jobs[record.job_id] = after
        if after.retired and after.spec.idempotency_key is None:
            del state.jobs[record.job_id]
        state.last_time = record.time
        if content is not None:
            state.contents[record.position] = content
        if type(record.event) in ERASING:
            for position in erased_positions(record.event):
                state.contents.pop(position, None)
        for model in self._read_models:
            for table, key, value in model.project(self, before, record, after):
                self._change(table, key, value)

    def _change(self, table: Table, key: Key, value: Value | None) -> None:
        rows = self._state.rows[table]
        if table.counters:
            rows[key] = rows.get(key, 0) + value
        elif value is None:
            del rows[key]
        elif not (table.first_stays and key in rows):
            rows[key] = value


class MemoryEngine:
    """See store.contract.Engine. `room` is what `room_for_new_work` answers."""

    shared = False

    def __init__(self, read_models: Sequence[Projection] = (), room: bool = True) -> None:
        self.room = room
        self._read_models = tuple(read_models)
        self._state = _State(rows={table: {} for model in read_models for table in model.tables})
        self._open: _State | None = None

    def begin(self, needs: Needs = NOTHING) -> MemoryTransaction:
        if self._open is not None:
            raise RuntimeError("a write transaction is open already")
        self._open = self._state.copy()
        return MemoryTransaction(self._open, self._read_models)

    def commit(self) -> None:
        self._state = self._taken()

    def abort(self) -> None:
        self._taken()

    def _taken(self) -> _State:
        if self._open is None:
            raise RuntimeError("no write transaction is open")
        taken, self._open = self._open, None
        return taken

    @contextmanager
    def read(self) -> Iterator[MemoryReader]:
        yield MemoryReader(self._state)

    def copy(self) -> None:
        """There is no file to copy."""

    def room_for_new_work(self, size: int = 0) -> bool:
        return self.room

    def maintain(self) -> None:
        """Nothing to keep in order."""

    def close(self) -> None:
        """Nothing to close; an open transaction is dropped."""
        self._open = None


def _place(job: Job) -> tuple[int, int, int]:
    """A waiting job's place in the order of leasing."""
    return -job.spec.priority, job.run_at, job.spec.position
