"""The log as a judge reads it: every record is held against the lifecycle's table, at the moment it is committed.

Written from the table and not from the code of `decide` and `evolve`. What those two make of the log is compared with
what is stored as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import orjson
from attrs import define, field

from eventjobs.domain import events as e
from eventjobs.domain.commands import ActorType
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import DeathCause, Job
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Head, Reader
from eventjobs.store.memory import MemoryEngine
from eventjobs.store.merkle import Frontier, leaf_hash
from eventjobs.testing.folding import Fold
from eventjobs.testing.simulation.messages import short
from eventjobs.testing.simulation.verdict import Verdict

WAITING = ("queued", "failed")
ENDED = frozenset({"succeeded", "dead", "canceled"})


@define
class Life:
    """A job as its records tell it. `run_at` and `expires_at` are as last recorded, `changed_at` is when."""

    queue: str
    kind: str
    max_attempts: int
    run_at: int
    state: str = "queued"
    version: int = 1
    attempts: int = 0
    token: int = 0
    expires_at: int = 0
    changed_at: int = 0
    worker: str = ""


@define
class Grant:
    """What a lease request was given, and in which commit."""

    commit: int
    jobs: list[str] = field(factory=list)


class Logbook:
    """Reads each commit. `facts` are the newest records by (event type, job id, token), `by_actor` counts records."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self.lives: dict[str, Life] = {}
        self.facts: dict[tuple[str, str, int], e.Record] = {}
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.by_actor: Counter[str] = Counter()
        self.grants: dict[tuple[str, str], Grant] = {}
        self.expirations = self.size = self.commits = 0
        self.states_at: dict[int, dict[str, int]] = {0: {}}
        self._states: Counter[str] = Counter()
        self._jobs: dict[str, Job] = {}
        self._time = 0

    @property
    def open_jobs(self) -> int:
        """Jobs that have not reached an end state."""
        return sum(count for state, count in self._states.items() if state not in ENDED)

    def committed(self, records: list[e.Record], reader: Reader) -> None:
        """Read what one commit added, and compare the store with it."""
        self.commits += 1
        for record in records:
            self._read(record)
        for job_id in {record.job_id: None for record in records}:
            stored = reader.job(job_id)
            self._hold(stored == self._jobs[job_id], f"job {short(job_id)} is not stored as its records fold")
        for record in records:
            if isinstance(record.event, e.JobCompleted) and record.event.result is not None:
                self._check_result(record, reader)
        self.states_at[self.size] = dict(self._states)

    def _read(self, record: e.Record) -> None:
        event, life = record.event, self.lives.get(record.job_id)
        self._hold(record.position == self.size + 1, f"position {record.position} follows {self.size}")
        self._hold(record.time >= self._time, f"time goes backwards at position {record.position}")
        self.size, self._time = record.position, record.time
        before = None if life is None else life.state
        if isinstance(event, e.JobEnqueued):
            self._hold(life is None and record.version == 1, f"{self._name(record)} for a job that is there")
            life = self.lives[record.job_id] = Life(event.queue, event.kind, event.max_attempts, event.run_at)
        elif life is None:
            return self._verdict.breach(f"{self._name(record)} for a job that was never enqueued")
        else:
            self._hold(record.version == life.version + 1, f"version {record.version} follows {life.version}")
            life.version = record.version
            _RULES[type(event)](self, life, record, event)
        life.changed_at = record.time
        self._states[life.state] += 1
        if before is not None:
            self._states[before] -= 1
        self._remember(record)

    def _check_result(self, record: e.Record, reader: Reader) -> None:
        """The result kept is that of the lease under which the job succeeded; handlers name its token in it."""
        result = orjson.loads(reader.content(reader.job(record.job_id).result))
        if isinstance(result, dict):
            token, current = result["token"], record.event.token
            self._hold(token == current, f"{self._name(record)} with the result of token {token}, not of {current}")

    def _remember(self, record: e.Record) -> None:
        key = (record.event.type, record.job_id, getattr(record.event, "token", 0))
        self.facts[key] = record
        self.counts[key] += 1
        if record.actor.type in (ActorType.PRODUCER, ActorType.OPERATOR):
            self.by_actor[record.actor.id] += 1
        self._jobs[record.job_id] = evolve(self._jobs.get(record.job_id), record)

    # The table

    def _leased(self, life: Life, record: e.Record, event: e.JobLeased) -> None:
        name = self._name(record)
        self._hold(life.state in WAITING, f"{name} while {life.state}")
        self._hold(life.run_at <= record.time, f"{name} before its time")
        self._hold(event.token == life.token + 1, f"{name} under token {event.token} after {life.token}")
        self._hold(event.attempt == life.attempts + 1, f"{name} as attempt {event.attempt} after {life.attempts}")
        self._hold(event.attempt <= life.max_attempts, f"{name} after its last attempt")
        life.state, life.token, life.attempts = "running", event.token, event.attempt
        life.expires_at, life.worker = event.expires_at, event.worker
        request = (event.worker, event.request_id)
        grant = self.grants.setdefault(request, Grant(self.commits))
        self._hold(grant.commit == self.commits, f"lease request {request} was given jobs a second time")
        self._hold(record.job_id not in grant.jobs, f"lease request {request} was given one job twice")
        grant.jobs.append(record.job_id)

    def _renewed(self, life: Life, record: e.Record, event: e.LeaseRenewed) -> None:
        self._with_token(life, record, event.token)
        self._hold(record.time < life.expires_at, f"{self._name(record)} when it had run out")
        self._hold(event.expires_at >= life.expires_at, f"{self._name(record)} to an earlier time")
        life.expires_at = event.expires_at

    def _released(self, life: Life, record: e.Record, event: e.LeaseReleased) -> None:
        self._with_token(life, record, event.token)
        life.state, life.run_at, life.attempts = "queued", event.run_at, life.attempts - 1

    def _expired(self, life: Life, record: e.Record, event: e.LeaseExpired) -> None:
        self._ran_out(life, record, event.token)
        self._hold(life.attempts < life.max_attempts, f"{self._name(record)} and lives on after its last attempt")
        life.state, life.run_at = "queued", event.run_at

    def _completed(self, life: Life, record: e.Record, event: e.JobCompleted) -> None:
        self._with_token(life, record, event.token)
        life.state = "succeeded"

    def _failed(self, life: Life, record: e.Record, event: e.AttemptFailed) -> None:
        self._with_token(life, record, event.token)
        self._hold(life.attempts < life.max_attempts, f"{self._name(record)} and lives on after its last attempt")
        life.state, life.run_at = "failed", event.run_at

    def _died(self, life: Life, record: e.Record, event: e.JobDied) -> None:
        if event.cause is DeathCause.LEASE_EXPIRED:
            self._ran_out(life, record, event.token)
        else:
            self._with_token(life, record, event.token)
        may_go_on = life.attempts < life.max_attempts and event.cause is not DeathCause.NOT_RETRYABLE
        self._hold(not may_go_on, f"{self._name(record)} with attempts left")
        life.state = "dead"

    def _canceled(self, life: Life, record: e.Record, event: e.JobCanceled) -> None:
        self._hold(life.state not in ENDED, f"{self._name(record)} while {life.state}")
        life.state = "canceled"

    def _requeued(self, life: Life, record: e.Record, event: e.JobRequeued) -> None:
        self._hold(life.state == "dead", f"{self._name(record)} while {life.state}")
        life.state, life.run_at, life.attempts = "queued", event.run_at, 0

    def _with_token(self, life: Life, record: e.Record, token: int) -> None:
        self._hold(life.state == "running", f"{self._name(record)} while {life.state}")
        self._hold(life.token == token, f"{self._name(record)} under token {token}, and not under {life.token}")

    def _ran_out(self, life: Life, record: e.Record, token: int) -> None:
        self._with_token(life, record, token)
        self._hold(record.time >= life.expires_at, f"{self._name(record)} before its lease ran out")
        self.expirations += 1

    def _name(self, record: e.Record) -> str:
        return f"{record.event.type} of job {short(record.job_id)} at position {record.position}"

    def _hold(self, kept: bool, what: str) -> None:
        if not kept:
            self._verdict.breach(what)


_RULES: dict[type, Callable[..., None]] = {
    e.JobLeased: Logbook._leased,
    e.LeaseRenewed: Logbook._renewed,
    e.LeaseReleased: Logbook._released,
    e.LeaseExpired: Logbook._expired,
    e.JobCompleted: Logbook._completed,
    e.AttemptFailed: Logbook._failed,
    e.JobDied: Logbook._died,
    e.JobCanceled: Logbook._canceled,
    e.JobRequeued: Logbook._requeued,
}


def difference(store: MemoryEngine) -> str | None:
    """What differs between a store and what its own records make; None when nothing does."""
    fold, frontier = Fold(READ_MODELS), Frontier()
    with store.read() as kept:
        size = kept.head().size
        fold.take(kept.records(0, size))
        for position in range(1, size + 1):
            frontier.append(leaf_hash(kept.record_text(position)))
        if kept.head() != Head(frontier.size, frontier.root()):
            return "the head is not that of the records"
        if fold.jobs != {job_id: kept.job(job_id) for job_id in fold.jobs}:
            return "the jobs are not the fold of the log"
        if differing := fold.differing(kept):
            return f"the rows of {', '.join(differing)} are not the fold of the log"
    return None
