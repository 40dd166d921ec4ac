"""What a transaction is told beforehand that it will be asked for: locked and loaded in the round trip that begins it.

Rows are locked before the append lock is asked for, and never waited for after it: so no two transactions can wait for
each other. First the jobs named by id, in the order of their ids, which may wait; then those that are wanted for
leasing or for an expiry, where what others have locked is passed over; then the append lock, and what is true under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog
from attrs import define, field

from eventjobs.domain.job import Job
from eventjobs.domain.projection import Table
from eventjobs.store.codec import decode_content, decode_job, unseal
from eventjobs.store.contract import Corrupt, LeaseNeed, Needs
from eventjobs.store.indexes import ATTEMPT_ERRORS, text_digest
from eventjobs.store.keys import uuid_bytes
from eventjobs.store.postgres.arrays import Bytes, Numbers, Texts, Uuids
from eventjobs.store.postgres.connection import Statement
from eventjobs.store.postgres.locks import APPEND_LOCK, LOCK_SPACE
from eventjobs.store.postgres.pending import Lane, lane_of
from eventjobs.store.postgres.reader import HEAD, StoredHead, position_key
from eventjobs.store.postgres.schema import projection_table

LOADED_CANDIDATES_MAX = 2_000
"""Candidates locked beforehand for all requests of a transaction together; more are asked for when they are wanted."""

LOWS_MAX = 1_000
"""Lanes that a coordinator remembers, and sends along when it looks for candidates."""

LOCK_JOBS = "SELECT value FROM eventjobs.jobs WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
THERE = "SELECT id::text, value FROM eventjobs.jobs WHERE id = ANY (%s)"
CANDIDATES = "SELECT * FROM eventjobs.candidates(%s::text[], %s::text[], {due}, %s::bigint, %s, %s, %s, %s, %s)"
DUE = f"(SELECT greatest(eventjobs.clock(), (SELECT time FROM ({HEAD}) AS head)))"
"""The time by which jobs are due, before the transaction's own time is known: no later than that. As a question of its
own it is asked once, and an index can go by it."""
EXPIRED = (
    "SELECT value FROM eventjobs.jobs WHERE expires_at <= {due} "
    "ORDER BY expires_at, position LIMIT %s FOR UPDATE SKIP LOCKED"
)
APPEND = f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, {APPEND_LOCK})"
STATE = (
    "SELECT eventjobs.clock(), (SELECT number FROM eventjobs.meta WHERE name = 'generation'), head.* "
    f"FROM (SELECT 1) AS always LEFT JOIN ({HEAD}) AS head ON true"
)
HOLDERS = (
    "SELECT k.key, j.value, j.position, c.value FROM eventjobs.projection_idempotency_keys k "
    "JOIN eventjobs.jobs j ON j.id = convert_from(substring(k.value FROM 5), 'UTF8')::uuid "
    "LEFT JOIN eventjobs.contents c ON c.position = j.position WHERE k.key = ANY (%s)"
)
ERRORS = f"SELECT key, value FROM {projection_table(ATTEMPT_ERRORS)} WHERE key = ANY (%s)"
ASKED = "SELECT * FROM eventjobs.lock_intake(%s)"
REQUESTS = "SELECT digest, position, time FROM eventjobs.lease_requests WHERE digest = ANY (%s)"

log = structlog.get_logger("eventjobs.store")

Filter = tuple[tuple[str, ...] | None, tuple[str, ...] | None]


def filter_of(queues: Sequence[str] | None, kinds: Sequence[str] | None) -> Filter:
    """What a lease asks for, as a name for what was loaded for it."""
    return (
        None if queues is None else tuple(sorted(set(queues))),
        None if kinds is None else tuple(sorted(set(kinds))),
    )


def leasing_order(job: Job) -> tuple[int, int, int]:
    """Sorts in the order of leasing."""
    return -job.spec.priority, job.run_at, job.spec.position


class Lows:
    """For each of the lanes that this coordinator leased from last the (run_at, position) up to which it has leased
    everything: where to look from.

    The dead entries of leased jobs stay at the beginning of a lane while a transaction that somebody holds open keeps
    them from being cleaned away, and a look from the beginning would walk over all of them. A job that another
    coordinator puts below, with a time in the past, is found by the next look from the beginning.
    """

    def __init__(self) -> None:
        self._lows: dict[Lane, tuple[int, int]] = {}

    def columns(self) -> tuple[object, ...]:
        lanes, lows = list(self._lows), list(self._lows.values())
        return (
            Numbers([lane[0] for lane in lanes]),
            Texts([lane[1] for lane in lanes]),
            Texts([lane[2] for lane in lanes]),
            Numbers([low[0] for low in lows]),
            Numbers([low[1] for low in lows]),
        )

    def leased(self, jobs: Iterable[Job]) -> None:
        """These were leased, the first of their lanes; each as it was before."""
        for job in jobs:
            lane, place = lane_of(job), (job.run_at, job.spec.position)
            self._lows[lane] = max(place, self._lows.pop(lane, place))
        while len(self._lows) > LOWS_MAX:
            del self._lows[next(iter(self._lows))]

    def waiting(self, job: Job) -> None:
        """This one waits now: nothing below it is known to be all there is."""
        low = self._lows.get(lane_of(job))
        if low is not None and (job.run_at, job.spec.position) <= low:
            del self._lows[lane_of(job)]

    def forget(self) -> None:
        self._lows.clear()


NO_LOWS = Lows()


@define
class Locked:
    """Jobs that were locked for something, best first. `all_there_is`: beyond them there are none, unless others have
    them locked."""

    jobs: list[Job]
    all_there_is: bool


@define
class Loaded:
    """What a transaction begins with."""

    head: StoredHead
    clock: int
    generation: int
    jobs: dict[str, Job | None] = field(factory=dict)
    candidates: dict[Filter, Locked] = field(factory=dict)
    expired: Locked | None = None
    holders: dict[bytes, tuple[Job, bytes | None]] = field(factory=dict)
    known_keys: frozenset[bytes] = frozenset()
    asked: frozenset[int] = frozenset()
    requests: dict[bytes, tuple[int, int] | None] = field(factory=dict)
    rows: dict[Table, dict[bytes, bytes | None]] = field(factory=dict)


def sound_jobs(values: Iterable[bytes]) -> list[Job]:
    """The jobs of values. A damaged one must not stand in the way of the others: it is told of and passed over."""
    jobs = []
    for value in values:
        try:
            jobs.append(sound_job(value))
        except Corrupt as error:
            log.error("damaged_job_row", error=str(error))
    return jobs


def sound_job(value: bytes) -> Job:
    """The job of a row's value. Raises Corrupt."""
    job = decode_job(value[4:])
    unseal(uuid_bytes(job.id), value, "jobs")
    return job


def candidates(queues: Sequence[str] | None, kinds: Sequence[str] | None, limit: int, lows: Lows) -> tuple:
    """The parameters of CANDIDATES, the time left out."""
    return (
        None if queues is None else Texts(sorted(set(queues))),
        None if kinds is None else Texts(sorted(set(kinds))),
        limit,
        *lows.columns(),
    )


class Loading:
    """The statements that load what is needed, and what their rows mean."""

    def __init__(self, needs: Needs, lows: Lows) -> None:
        self.jobs = sorted({uuid_bytes(job_id): job_id for job_id in needs.jobs}.items())
        self.ids = [job_id for _, job_id in self.jobs]
        self.wanted = wanted_candidates(needs.leases)
        self.expired = needs.expired
        self.asked = needs.asked
        self.keys = sorted({text_digest(key) for key in needs.keys})
        requests = {(need.worker, need.request_id) for need in needs.leases if need.request_id is not None}
        self.requests = sorted(text_digest(*request) for request in requests)
        self._lows = lows

    def before_lock(self) -> list[Statement]:
        """What locks rows."""
        found: list[Statement] = []
        if self.jobs:
            found.append((LOCK_JOBS, (Uuids([key for key, _ in self.jobs]),)))
        for (queues, kinds), limit in self.wanted.items():
            found.append((CANDIDATES.format(due=DUE), candidates(queues, kinds, limit, self._lows)))
        if self.expired:
            found.append((EXPIRED.format(due=DUE), (self.expired,)))
        if self.asked:
            found.append((ASKED, (Numbers([number for number, _ in self.asked]),)))
        return found

    def under_lock(self) -> list[Statement]:
        """What takes the append lock, and what is true from then on."""
        found: list[Statement] = [(APPEND, ()), (STATE, ())]
        if self.asked:
            found.append((THERE, (Uuids(sorted({uuid_bytes(job_id) for _, job_id in self.asked})),)))
        if self.keys:
            found.append((HOLDERS, (Bytes(self.keys),)))
        if self.jobs:
            found.append((ERRORS, (Bytes([key for key, _ in self.jobs]),)))
        if self.requests:
            found.append((REQUESTS, (Bytes(self.requests),)))
        return found

    def loaded(self, answers: list[list[tuple]]) -> Loaded:
        """What the rows of all these statements mean."""
        each = iter(answers)
        jobs: dict[str, Job | None] = {job_id: None for _, job_id in self.jobs}
        if self.jobs:
            jobs |= {job.id: job for job in map(sound_job, _values(next(each)))}
        locked = {}
        for name, limit in self.wanted.items():
            rows = next(each)
            locked[name] = Locked(sorted(sound_jobs(_values(rows)), key=leasing_order), len(rows) < limit)
        expired = None
        if self.expired:
            rows = next(each)
            expired = Locked(sound_jobs(_values(rows)), len(rows) < self.expired)
        asked = frozenset(_values(next(each))) if self.asked else frozenset()
        next(each)
        ((clock, generation, *head),) = next(each)
        loaded = Loaded(StoredHead.of_rows([] if head[0] is None else [tuple(head)]), clock, generation)
        loaded.jobs, loaded.candidates, loaded.expired = jobs, locked, expired
        for some in (*locked.values(), *([] if expired is None else [expired])):
            jobs.update({job.id: job for job in some.jobs})
        loaded.asked = asked
        if self.asked:
            there = known_jobs([job_id for _, job_id in self.asked], next(each))
            jobs.update({job_id: job for job_id, job in there.items() if job_id not in jobs})
        if self.keys:
            loaded.holders, damaged = sound_holders(next(each))
            loaded.known_keys = frozenset(self.keys) - damaged
        if self.jobs:
            stored = {key: unseal(key, value, ATTEMPT_ERRORS.name) for key, value in next(each)}
            loaded.rows[ATTEMPT_ERRORS] = {key: stored.get(key) for key, _ in self.jobs}
        if self.requests:
            loaded.requests = dict.fromkeys(self.requests)
            loaded.requests |= {digest: (position, time) for digest, position, time in next(each)}
        return loaded


def wanted_candidates(leases: Sequence[LeaseNeed]) -> dict[Filter, int]:
    """How many candidates each filter needs: as many as may be leased up to its last request."""
    found: dict[Filter, int] = {}
    total = 0
    for need in leases:
        total += need.limit
        found[filter_of(need.queues, need.kinds)] = min(total, LOADED_CANDIDATES_MAX)
    return found


def holder(row: tuple) -> tuple[bytes, tuple[Job, bytes | None]]:
    """A key's digest, its job, and the job's payload."""
    digest, value, position, content = row
    job = sound_job(value)
    if job.spec.idempotency_key is None or text_digest(job.spec.idempotency_key) != digest:
        raise Corrupt(f"idempotency_keys: a key leads to job {job.id}, which was not enqueued under it")
    if job.spec.payload is None:
        return digest, (job, None)
    if content is None:
        raise Corrupt(f"contents: the content of position {position} is missing")
    return digest, (job, decode_content(unseal(position_key(position), content, "contents")).text)


def known_jobs(job_ids: Iterable[str], rows: list[tuple]) -> dict[str, Job | None]:
    """The jobs with these ids, None for those that do not exist. A damaged one is left out: whoever asks for it is
    told."""
    found: dict[str, Job | None] = dict.fromkeys(job_ids)
    for job_id, value in rows:
        try:
            found[job_id] = sound_job(value)
        except Corrupt:
            del found[job_id]
    return found


def sound_holders(rows: list[tuple]) -> tuple[dict[bytes, tuple[Job, bytes | None]], set[bytes]]:
    """The holders of keys, and the keys whose holder is damaged: whoever asks for one of these is told, and nobody
    else."""
    found, damaged = {}, set()
    for row in rows:
        try:
            digest, held = holder(row)
        except Corrupt:
            damaged.add(row[0])
        else:
            found[digest] = held
    return found, damaged


def _values(rows: list[tuple]) -> list[bytes]:
    return [row[0] for row in rows]
