"""What a transaction has appended and not written yet, and the statements that write it all in one round trip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from eventjobs.domain.content import Content
from eventjobs.domain.intake import NotEnqueued
from eventjobs.domain.job import Job
from eventjobs.domain.projection import Key, Table, Value
from eventjobs.store.codec import encode_content, encode_job, seal, unseal
from eventjobs.store.keys import KeyCodec, uuid_bytes
from eventjobs.store.merkle import Node
from eventjobs.store.postgres.arrays import Bytes, Flags, Numbers, Texts, Uuids
from eventjobs.store.postgres.connection import Statement
from eventjobs.store.postgres.reader import node_key, position_key
from eventjobs.store.postgres.schema import projection_table

LOG = "INSERT INTO eventjobs.log SELECT %s::bigint + place, value FROM unnest(%s) WITH ORDINALITY AS new(value, place)"
CONTENTS = "INSERT INTO eventjobs.contents SELECT * FROM unnest(%s, %s)"
ERASED = "DELETE FROM eventjobs.contents WHERE position = ANY (%s)"
RETIRED = "DELETE FROM eventjobs.jobs WHERE id = ANY (%s)"
TREE = "INSERT INTO eventjobs.tree SELECT * FROM unnest(%s, %s, %s)"
JOB_COLUMNS = ("id", "run_at", "waiting", "scheduled", "expires_at", "value", "position", "queue", "kind", "rank")
NEW_JOBS = (
    f"INSERT INTO eventjobs.jobs ({', '.join(JOB_COLUMNS)}) "
    "SELECT * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
JOBS = (
    "WITH changed AS (UPDATE eventjobs.jobs AS j SET run_at = new.run_at, waiting = new.waiting, "
    "scheduled = new.scheduled, expires_at = new.expires_at, value = new.value "
    "FROM unnest(%s, %s, %s, %s, %s, %s) AS new(id, run_at, waiting, scheduled, expires_at, value) "
    "WHERE j.id = new.id RETURNING 1) SELECT eventjobs.expect(count(*), %s, 'jobs') FROM changed"
)
LANES = "INSERT INTO eventjobs.lanes SELECT * FROM unnest(%s, %s, %s) ON CONFLICT DO NOTHING"
REQUESTS = (
    "INSERT INTO eventjobs.lease_requests SELECT * FROM unnest(%s, %s, %s) "
    "ON CONFLICT (digest) DO UPDATE SET position = excluded.position, time = excluded.time"
)
SETTLED = "DELETE FROM eventjobs.intake WHERE number = ANY (%s)"
NOT_ENQUEUED = (
    "INSERT INTO eventjobs.not_enqueued "
    "SELECT i.number, i.id, new.code, new.reason, new.job_id::uuid, i.request, i.payload, i.actor, i.asked_at, "
    "eventjobs.clock() FROM unnest(%s, %s, %s, %s) AS new(number, code, reason, job_id) "
    "JOIN eventjobs.intake i USING (number)"
)
COUNTERS = "INSERT INTO eventjobs.counter_deltas SELECT * FROM unnest(%s, %s, %s)"

Lane = tuple[int, str, str]
"""(rank, queue, kind): jobs of one order. A rank is a priority with its sign turned, so that the best comes first."""


def lane_of(job: Job) -> Lane:
    """The lane a job waits in."""
    return -job.spec.priority, job.spec.queue, job.spec.kind


class Pending:
    """Collects; `statements` gives what writes it, and `clear` forgets it."""

    def __init__(self, codecs: dict[Table, KeyCodec]) -> None:
        self._codecs = codecs
        self.clear()

    def clear(self) -> None:
        self._log: list[bytes] = []
        self._first = 0
        self._contents: dict[int, bytes] = {}
        self._nodes: list[Node] = []
        self._erased: list[int] = []
        self._new: dict[str, Job] = {}
        self._changed: dict[str, Job] = {}
        self._requests: dict[bytes, tuple[int, int]] = {}
        self._rows: defaultdict[Table, dict[bytes, bytes | None]] = defaultdict(dict)
        self._needed: defaultdict[Table, set[bytes]] = defaultdict(set)
        """Keys whose rows must have been there before."""
        self._counters: defaultdict[Table, dict[Key, int]] = defaultdict(dict)
        self._settled: dict[int, NotEnqueued | None] = {}

    def __bool__(self) -> bool:
        return bool(self._log or self._rows or self._counters or self._new or self._changed)

    def record(self, position: int, text: bytes, content: Content | None, nodes: list[Node]) -> None:
        """A record with what lies beside it. Positions come without a gap."""
        if not self._log:
            self._first = position
        key = position_key(position)
        self._log.append(seal(key, text))
        if content is not None:
            self._contents[position] = seal(key, encode_content(content))
        if nodes:
            self._nodes += nodes

    def job(self, job: Job, new: bool) -> None:
        """A job as it stands now."""
        if new or job.id in self._new:
            self._new[job.id] = job
        else:
            self._changed[job.id] = job

    def erase(self, positions: Iterable[int]) -> None:
        """Contents that are to be gone."""
        self._erased += positions

    def request(self, digest: bytes, position: int, time: int) -> None:
        """The first grant of a lease request."""
        self._requests[digest] = (position, time)

    def change(self, table: Table, key: Key, value: Value | None) -> None:
        """A change of a projection's table."""
        if table.counters:
            of_table = self._counters[table]
            of_table[key] = of_table.get(key, 0) + value
            return
        encoded = self._codecs[table].encode(key)
        rows = self._rows[table]
        if value is None and encoded not in rows:
            self._needed[table].add(encoded)
        if table.first_stays and rows.get(encoded) is not None:
            return
        rows[encoded] = None if value is None else seal(encoded, value)

    def row(self, table: Table, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the row under a key was changed, and what it is now."""
        rows = self._rows.get(table, {})
        if key not in rows:
            return False, None
        stored = rows[key]
        return True, None if stored is None else unseal(key, stored, table.name)

    def settle(self, number: int, refusal: NotEnqueued | None) -> None:
        """A request of the intake that was answered."""
        self._settled[number] = refusal

    def statements(self) -> list[Statement]:
        """What writes all of it."""
        found: list[Statement] = []
        if self._log:
            found.append((LOG, (self._first - 1, Bytes(self._log))))
        if self._contents:
            found.append((CONTENTS, (Numbers(list(self._contents)), Bytes(list(self._contents.values())))))
        if self._erased:
            found.append((ERASED, (Numbers(self._erased),)))
        if self._nodes:
            found.append(_of_tree(self._nodes))
        if self._new:
            jobs = list(self._new.values())
            found.append((NEW_JOBS, job_columns(jobs)))
        if self._changed:
            jobs = list(self._changed.values())
            found.append((JOBS, (*_states(jobs), len(jobs))))
        jobs = [*self._new.values(), *self._changed.values()]
        if gone := [uuid_bytes(job.id) for job in jobs if job.retired and job.spec.idempotency_key is None]:
            found.append((RETIRED, (Uuids(gone),)))
        lanes = {lane_of(job) for jobs in (self._new, self._changed) for job in jobs.values() if job.waiting}
        if lanes:
            ranks, queues, kinds = zip(*sorted(lanes), strict=True)
            found.append((LANES, (Numbers(ranks), Texts(queues), Texts(kinds))))
        if self._requests:
            positions, times = zip(*self._requests.values(), strict=True)
            found.append((REQUESTS, (Bytes(list(self._requests)), Numbers(positions), Numbers(times))))
        for table, rows in self._rows.items():
            found += _of_rows(table, rows, self._needed[table])
        if self._counters:
            found.append(self._of_counters())
        return found + self._of_intake()

    def _of_intake(self) -> list[Statement]:
        if not self._settled:
            return []
        settled: Statement = (SETTLED, (Numbers(list(self._settled)),))
        refused = {number: why for number, why in self._settled.items() if why is not None}
        if not refused:
            return [settled]
        codes, reasons = [why.code for why in refused.values()], [why.reason for why in refused.values()]
        jobs = [why.job_id for why in refused.values()]
        return [(NOT_ENQUEUED, (Numbers(list(refused)), Texts(codes), Texts(reasons), Texts(jobs))), settled]

    def _of_counters(self) -> Statement:
        names, keys, values = [], [], []
        for table, deltas in self._counters.items():
            encode = self._codecs[table].encode
            names += [table.name] * len(deltas)
            keys += [encode(key) for key in deltas]
            values += deltas.values()
        return COUNTERS, (Texts(names), Bytes(keys), Numbers(values))


def job_columns(jobs: list[Job]) -> tuple[object, ...]:
    """JOB_COLUMNS of some jobs."""
    return (*_states(jobs), *_places(jobs))


def _states(jobs: list[Job]) -> tuple[object, ...]:
    """The columns that change: id, run_at, waiting, scheduled, expires_at, value."""
    keys = [uuid_bytes(job.id) for job in jobs]
    return (
        Uuids(keys),
        Numbers([job.run_at for job in jobs]),
        Flags([job.waiting for job in jobs]),
        Flags([job.waiting and job.run_at > job.updated_at for job in jobs]),
        Numbers([None if job.lease is None else job.lease.expires_at for job in jobs]),
        Bytes([seal(key, encode_job(job)) for key, job in zip(keys, jobs, strict=True)]),
    )


def _places(jobs: list[Job]) -> tuple[object, ...]:
    """The columns that stay: position, queue, kind, rank."""
    return (
        Numbers([job.spec.position for job in jobs]),
        Texts([job.spec.queue for job in jobs]),
        Texts([job.spec.kind for job in jobs]),
        Numbers([-job.spec.priority for job in jobs]),
    )


def _of_tree(nodes: list[Node]) -> Statement:
    values = [seal(node_key(level, index), digest) for level, index, digest in nodes]
    return TREE, (Numbers([node[0] for node in nodes]), Numbers([node[1] for node in nodes]), Bytes(values))


def _of_rows(table: Table, rows: dict[bytes, bytes | None], needed: set[bytes]) -> list[Statement]:
    """Deletes first: of rows that must be there, then of rows that may have been put by these very statements."""
    name = projection_table(table)
    gone = [key for key, value in rows.items() if value is None]
    must = [key for key in gone if key in needed]
    may = [key for key in gone if key not in needed]
    put = {key: value for key, value in rows.items() if value is not None}
    found: list[Statement] = []
    if must:
        delete = (
            f"WITH gone AS (DELETE FROM {name} WHERE key = ANY (%s) RETURNING 1) "
            "SELECT eventjobs.expect(count(*), %s, %s) FROM gone"
        )
        found.append((delete, (Bytes(must), len(must), table.name)))
    if may:
        found.append((f"DELETE FROM {name} WHERE key = ANY (%s)", (Bytes(may),)))
    if put:
        insert = f"INSERT INTO {name} SELECT * FROM unnest(%s, %s){_if_there(table, put, needed)}"
        found.append((insert, (Bytes(list(put)), Bytes(list(put.values())))))
    return found


def _if_there(table: Table, put: dict[bytes, bytes], needed: set[bytes]) -> str:
    """What is to be done where a key is there already. To be ready for that costs a third more than not to be."""
    if table.put_once and needed.isdisjoint(put):
        return ""
    return f" ON CONFLICT (key) DO {'NOTHING' if table.first_stays else 'UPDATE SET value = excluded.value'}"
