"""All engines side by side, under any sequence of commands, beside a model made of plain dictionaries.

The model knows the lifecycle in its own words and nothing of events. After every step each engine must show the
model's jobs, and all engines the same log, head and read models. Closing and opening an engine is a step like others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Rejection
from eventjobs.domain.retry import Constant
from eventjobs.projections import READ_MODELS, dead_list, history, listing, stats
from eventjobs.store.lmdb import open_engine
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

RETRY_DELAY = b.seconds(5)
LEASE = b.seconds(15)
ENDED = {"succeeded", "dead", "canceled"}

NAMES = ["a", "a-b", "b"]
SETTLES = ["complete", "fail", "fail", "die", "release", "renew"]

names = st.sampled_from(NAMES)
some_names = st.none() | st.lists(names, min_size=1, max_size=2)
picks = st.integers(0, 30)
what = st.sampled_from(SETTLES)
tokens = st.sampled_from([0, 0, 0, 0, -1, 1])
"""How far a token is off the current one."""


class Model:
    """Jobs as dictionaries, in the order of arrival, and what was granted to which request."""

    def __init__(self) -> None:
        self.jobs: list[dict] = []
        self.requests: dict[str, list[tuple[str, int]]] = {}
        self.leases = self.expirations = 0

    def due(self, queues, kinds, now) -> list[dict]:
        """The waiting jobs of those lanes whose time has come, best first."""
        due = [
            job
            for job in self.jobs
            if job["state"] in ("queued", "failed")
            and job["run_at"] <= now
            and (queues is None or job["queue"] in queues)
            and (kinds is None or job["kind"] in kinds)
        ]
        return sorted(due, key=lambda job: (-job["priority"], job["run_at"], self.jobs.index(job)))

    def lease(self, job: dict, now: int) -> None:
        job.update(state="running", attempts=job["attempts"] + 1, token=job["token"] + 1, settled=None)
        job["expires_at"] = now + LEASE
        self.leases += 1

    def settle(self, job: dict, what: str, token: int, now: int) -> str:
        """Complete, fail, die (a final failure), release or renew by a token: the state it leads to, or the refusal."""
        if token != job["token"]:
            return "stale_token"
        if job["state"] != "running":
            repeated = what in ("complete", "fail", "die") and job["settled"] == (what == "complete")
            return job["state"] if repeated else "stale_token"
        if what == "renew":
            if now >= job["expires_at"]:
                return "lease_expired"
            job["expires_at"] = now + LEASE
            return "running"
        if what == "complete":
            job.update(state="succeeded", settled=True)
        elif what == "release":
            job.update(state="queued", attempts=job["attempts"] - 1, run_at=now)
        elif what == "die" or job["attempts"] == job["max_attempts"]:
            job.update(state="dead", settled=False)
        else:
            job.update(state="failed", run_at=now + RETRY_DELAY, settled=False)
        return job["state"]

    def expire(self, now: int) -> int:
        """Take every job whose lease ran out; how many."""
        over = [job for job in self.jobs if job["state"] == "running" and job["expires_at"] <= now]
        for job in over:
            job["state"] = "dead" if job["attempts"] == job["max_attempts"] else "queued"
            if job["state"] == "queued":
                job["run_at"] = now
        self.expirations += len(over)
        return len(over)


class EnginesAgree(RuleBasedStateMachine):
    """The rules. `settled` of a model's job tells how a worker ended its last lease: True success, False failure."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.now = b.START
        self.model = Model()
        self.drivers: dict[str, Driver] = {}

    @initialize()
    def open_all(self) -> None:
        self.drivers = {"memory": Driver(MemoryEngine(READ_MODELS)), "lmdb": self._open_lmdb()}

    def _open_lmdb(self) -> Driver:
        return Driver(open_engine(Path(self._directory.name), READ_MODELS, map_size=16 << 20))

    def teardown(self) -> None:
        for driver in self.drivers.values():
            driver.engine.close()
        self._directory.cleanup()

    # Steps

    @rule(duration=st.sampled_from([0, 1, 4, 16]))
    def time_passes(self, duration):
        self.now += b.seconds(duration)

    @rule(
        number=st.integers(1, 3), queue=names, kind=names, priority=st.sampled_from([-1, 0, 1]),
        attempts=st.integers(1, 3), delay=st.sampled_from([0, 0, 3, 30]),
    )  # fmt: skip
    def enqueue(self, number, queue, kind, priority, attempts, delay):
        first = len(self.model.jobs)
        for each in range(first, first + number):
            self.model.jobs.append(
                {
                    "id": b.an_id(each), "queue": queue, "kind": kind, "priority": priority, "max_attempts": attempts,
                    "state": "queued", "attempts": 0, "token": 0,
                    "run_at": self.now + b.seconds(delay), "settled": None,
                }
            )  # fmt: skip
        commands = [
            b.enqueue(
                job["id"], queue=queue, kind=kind, priority=priority, max_attempts=attempts, delay=b.seconds(delay),
                retry_policy=Constant(base=5), idempotency_key=job["id"], now=self.now,
            )
            for job in self.model.jobs[first:]
        ]  # fmt: skip
        assert self._everywhere(lambda driver: _states(driver.execute(*commands))) == ["queued"] * number

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, same=st.booleans())
    def enqueue_again(self, pick, same):
        """A known key: the job as it is, or a refusal when something else is asked for."""
        job = self._picked(pick)
        with self.drivers["memory"].engine.read() as reader:
            spec = reader.job(job["id"]).spec
        command = b.enqueue(
            b.an_id(9_999), queue=spec.queue, kind=spec.kind, priority=spec.priority, max_attempts=spec.max_attempts,
            delay=spec.asked_delay, retry_policy=spec.retry_policy, idempotency_key=job["id"],
            payload=b.PAYLOAD if same else None, now=self.now,
        )  # fmt: skip
        expected = job["state"] if same else "idempotency_key_reused"
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == [expected]

    @rule(queues=some_names, kinds=some_names, limit=st.integers(1, 4))
    def lease(self, queues, kinds, limit):
        expected = self.model.due(queues, kinds, self.now)[:limit]
        for job in expected:
            self.model.lease(job, self.now)
        command = b.lease(duration=LEASE, now=self.now)
        leased = self._everywhere(lambda driver: [job.id for job in driver.lease(command, queues, kinds, limit)])
        assert leased == [job["id"] for job in expected]

    @rule(request=st.sampled_from(["r", "s", "t"]), limit=st.integers(1, 3))
    def lease_by_request(self, request, limit):
        """The first time it leases; again, it shows what is still held of that."""
        if request in self.model.requests:
            by_id = {job["id"]: job for job in self.model.jobs}
            held = [
                job_id
                for job_id, token in self.model.requests[request]
                if by_id[job_id]["state"] == "running" and by_id[job_id]["token"] == token
            ]
        else:
            jobs = self.model.due(None, None, self.now)[:limit]
            for job in jobs:
                self.model.lease(job, self.now)
            held = [job["id"] for job in jobs]
            if held:
                self.model.requests[request] = [(job["id"], job["token"]) for job in jobs]
        command = b.lease(duration=LEASE, request_id=request, now=self.now)
        assert self._everywhere(lambda driver: [job.id for job in driver.lease(command, limit=limit)]) == held

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=what, offset=tokens)
    def settle(self, pick, what, offset):
        """A worker ends, or prolongs, what it has."""
        self._settle(self._picked(pick, "running"), what, offset)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=what)
    def settle_late(self, pick, what):
        """A worker that slept speaks up for a job that may be anywhere by now."""
        self._settle(self._picked(pick), what, 0)

    def _settle(self, job, what, offset):
        token = max(0, job["token"] + offset)
        make = {"complete": b.complete, "fail": b.fail, "die": b.fail, "release": b.release, "renew": b.renew}[what]
        command = make(job["id"], token=token, now=self.now, **({"retry": False} if what == "die" else {}))
        expected = self.model.settle(job, what, token, self.now)
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == [expected]

    @rule()
    def expire(self):
        expired = self.model.expire(self.now)
        assert self._everywhere(lambda driver: len(driver.expire(self.now))) == expired

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancel(self, pick):
        job = self._picked(pick)
        if job["state"] not in ENDED:
            job.update(state="canceled", settled=None)
        expected = "illegal_transition" if job["state"] in {"succeeded", "dead"} else "canceled"
        command = b.cancel(job["id"], now=self.now)
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == [expected]

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def requeue(self, pick):
        job = self._picked(pick, "dead")
        expected = "queued" if job["state"] == "dead" else "illegal_transition"
        if job["state"] == "dead":
            job.update(state="queued", attempts=0, run_at=self.now, settled=None)
        command = b.requeue(job["id"], now=self.now)
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == [expected]

    @rule(number=st.integers(0, 4))
    def abort(self, number):
        """What is appended and then dropped leaves nothing."""
        for driver in self.drivers.values():
            transaction = driver.engine.begin()
            for job in transaction.candidates(None, None, self.now, number):
                transaction.append(job, b.leased(token=job.lease_token + 1), job.id, self.now, b.WORKER_ACTOR, None)
            transaction.append(None, b.enqueued(), b.an_id(9_999), self.now, b.PRODUCER_ACTOR, b.PAYLOAD)
            driver.engine.abort()

    @rule()
    def close_and_open(self):
        self.drivers["lmdb"].engine.close()
        self.drivers["lmdb"] = self._open_lmdb()

    # What must hold after each

    @invariant()
    def jobs_are_as_the_model_says(self):
        for driver in self.drivers.values():
            with driver.engine.read() as reader:
                for job in self.model.jobs:
                    met = reader.job(job["id"])
                    expiry = job["expires_at"] if job["state"] == "running" else None
                    assert (met.state, met.attempts, met.lease_token) == (job["state"], job["attempts"], job["token"])
                    assert (None if met.lease is None else met.lease.expires_at) == expiry
                    assert met.run_at == job["run_at"]
                assert reader.job(b.an_id(9_999)) is None

    @invariant()
    def read_models_are_as_the_model_says(self):
        count = {
            state: sum(job["state"] == state for job in self.model.jobs)
            for state in [*ENDED, "queued", "running", "failed"]
        }
        dead = [job["id"] for job in self.model.jobs if job["state"] == "dead"]
        for driver in self.drivers.values():
            with driver.engine.read() as reader:
                counted = stats.read(reader)
                assert counted.jobs == count
                assert (counted.events["job_leased"], counted.lease_expirations) == (
                    self.model.leases,
                    self.model.expirations,
                )
                assert [job_id for _, job_id in dead_list.oldest(reader, kind=None, queue=None, limit=1000)] == dead
                page = listing.page(reader, state="queued", kind=None, queue="a", below=None, limit=1000)
                assert [job_id for _, job_id in page] == [
                    job["id"] for job in self.model.jobs[::-1] if (job["state"], job["queue"]) == ("queued", "a")
                ]

    @invariant()
    def logs_are_the_same_and_gapless(self):
        logs = [_log(driver) for driver in self.drivers.values()]
        assert all(log == logs[0] for log in logs)
        if logs:
            assert [record.position for record in logs[0][1]] == list(range(1, logs[0][0].size + 1))

    def _picked(self, pick: int, state: str | None = None) -> dict:
        """One of the model's jobs; of those in the state, if there are any."""
        jobs = [job for job in self.model.jobs if job["state"] == state] or self.model.jobs
        return jobs[pick % len(jobs)]

    def _everywhere(self, ask):
        """The answer of all engines, which must be one."""
        answers = [ask(driver) for driver in self.drivers.values()]
        assert all(answer == answers[0] for answer in answers)
        return answers[0]


def _states(answers: list[Job | Rejection]) -> list[str]:
    return [str(answer.code) if isinstance(answer, Rejection) else str(answer.state) for answer in answers]


def _log(driver: Driver) -> tuple:
    """Head, records, histories, and what comes next of itself."""
    with driver.engine.read() as reader:
        head, records = reader.head(), reader.records(0, 100_000)
        histories = {record.job_id: history.positions(reader, record.job_id) for record in records}
        due = reader.next_due(records[-1].time) if records else None
        return head, records, histories, due, reader.next_expiry()


class BusyEnginesAgree(EnginesAgree):
    """The same with much more to do: left to itself, Hypothesis prefers short lives and much repetition."""

    @rule(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
    def a_busy_while(self, seed, steps):
        """Many steps, drawn evenly by a generator of its own."""
        random = Random(seed)
        for _ in range(steps):
            pick = random.randrange(1_000)
            match random.randrange(16) if self.model.jobs else 0:
                case 0 | 1:
                    self.enqueue(2, random.choice(NAMES), random.choice(NAMES), 0, random.choice([1, 2, 2, 3]), 0)
                case 2 | 3 | 4:
                    self.lease(None, random.choice([None, ["a", "b"]]), 2)
                case 5 | 6 | 7:
                    self.settle(pick, random.choice(SETTLES), 0)
                case 8 | 9:
                    self.settle_late(pick, random.choice(SETTLES))
                case 10 | 11:
                    self.time_passes(random.choice([1, 4, 16]))
                case 12 | 13:
                    self.expire()
                case 14:
                    self.requeue(pick)
                case 15:
                    if pick % 3 == 0:
                        self.cancel(pick)
                    else:
                        self.lease_by_request(random.choice("uvwxyz"), 2)


TestEnginesAgree = EnginesAgree.TestCase
TestBusyEnginesAgree = BusyEnginesAgree.TestCase
TestBusyEnginesAgree.settings = settings(phases=[Phase.reuse, Phase.generate])  # random steps do not shrink
