"""All engines side by side, under any sequence of commands, beside a model made of plain dictionaries.

After every step each engine must show the model's jobs; its job rows and the rows of every read model and index must be
the fold of its log; and all engines must have the same log. Closing and opening, a crash, and projections made anew
are steps like others, and so is a clock that is set forward or back.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random, SystemRandom

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventjobs.coordinator.replies import BatchRejected
from eventjobs.domain.events import EVENT_TYPES
from eventjobs.domain.job import Job
from eventjobs.domain.rejections import Rejection
from eventjobs.domain.retry import Constant
from eventjobs.projections import READ_MODELS, dead_list, history, listing, stats
from eventjobs.store.contract import BARE, HOLDING, KEYED
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.engines import ENGINES, EngineKind
from eventjobs.testing.folding import Fold
from eventjobs.testing.plain_model import LEASE, STATES, Model

PROFILE = os.environ.get("EVENTJOBS_PROFILE", "quick")
LIVES = {"quick": (4, 400), "ci": (12, 1_000), "deep": (60, 2_000)}
"""Long lives by profile: how many, and of how many steps."""
WITH_SLOW_ONES = {"quick": (1, 80), "ci": (4, 200), "deep": (20, 500)}
"""The same with every engine."""
FAST = {name: kind for name, kind in ENGINES.items() if not kind.slow}

NAMES = ["a", "a-b", "b"]
SETTLES = ["complete", "fail", "fail", "die", "release", "renew"]
ENDINGS = ["erase", "retire", "forget_key"]
WITHOUT_TOKEN = ["cancel", "requeue", *ENDINGS]
SENT = [*SETTLES, "cancel", "requeue", "erase"]
MAKERS = {
    "complete": b.complete,
    "fail": b.fail,
    "die": b.fail,
    "release": b.release,
    "renew": b.renew,
    "cancel": b.cancel,
    "requeue": b.requeue,
    "erase": b.erase,
    "retire": b.retire,
    "forget_key": b.forget_key,
}
JUMPS = [-7_200, -20, 20, 7_200, 100_000]
"""Seconds by which a clock is set wrong; the last are more than a lease request is remembered for."""
NOBODY = b.an_id(9_999)

names = st.sampled_from(NAMES)
some_names = st.none() | st.lists(names, min_size=1, max_size=2)
picks = st.integers(0, 30)
tokens = st.sampled_from([0, 0, 0, 0, -1, 1])
"""How far a token is off the current one."""


class EnginesAgree(RuleBasedStateMachine):
    """The rules. `sent` are commands as workers and operators made them, each to be delivered now, later, or twice."""

    def __init__(self, engines: Mapping[str, EngineKind] = FAST) -> None:
        super().__init__()
        self._engines = engines
        self._directory = tempfile.TemporaryDirectory()
        self._places: dict[str, Path] = {}
        self._grown = dict.fromkeys(engines, 0)
        self.now = b.START
        self.model = Model()
        self.sent: list[tuple[str, str, int, int]] = []
        self.drivers: dict[str, Driver] = {}
        self.folds: dict[str, Fold] = {}

    @initialize()
    def open_all(self) -> None:
        for name, kind in self._engines.items():
            self._places[name] = self._new_place(name)
            self.drivers[name] = Driver(kind.open(self._places[name], READ_MODELS))
            self.folds[name] = Fold((*kind.indexes, *READ_MODELS))

    def _new_place(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=name, dir=self._directory.name))

    def teardown(self) -> None:
        for driver in self.drivers.values():
            driver.engine.close()
        self._directory.cleanup()

    # Time

    @rule(duration=st.sampled_from([0, 1, 4, 16]))
    def time_passes(self, duration):
        self.now += b.seconds(duration)

    @rule(seconds=st.sampled_from(JUMPS))
    def the_clock_jumps(self, seconds):
        self.now += b.seconds(seconds)

    @rule()
    def the_clock_is_set_right(self):
        self.now = self.model.time(self.now)

    # Commands

    @rule(
        number=st.integers(1, 3), queue=names, kind=names, priority=st.sampled_from([-1, 0, 1]),
        attempts=st.integers(1, 3), delay=st.sampled_from([0, 0, 0.5, 3, 30]),
    )  # fmt: skip
    def enqueue(self, number, queue, kind, priority, attempts, delay):
        first = len(self.model.jobs)
        asked = {"queue": queue, "kind": kind, "priority": priority, "max_attempts": attempts}
        for each in range(first, first + number):
            self.model.enqueue(b.an_id(each), self.now, b.seconds(delay), **asked)
        commands = [self._enqueue(job) for job in self.model.jobs[first:]]
        assert self._everywhere(lambda driver: _states(driver.execute(*commands))) == ["queued"] * number

    def _enqueue(self, job: dict, job_id: str | None = None, same: bool = True) -> object:
        """The job's own request; under another id it is a repetition, and may ask for something else."""
        asked = {name: job[name] for name in ("queue", "kind", "priority", "max_attempts", "delay")}
        payload = b.PAYLOAD if same else None
        more = {"retry_policy": Constant(base=5), "idempotency_key": job["key"], "payload": payload, "now": self.now}
        return b.enqueue(job_id or job["id"], **asked, **more)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, same=st.booleans())
    def enqueue_again(self, pick, same):
        """A known key: the job as it is, or as it was when it was retired; or a refusal when something else is asked
        for. A key that was forgotten makes a new job."""
        job = self._picked(pick)
        if job["key"] is None:
            return self._enqueue_under_a_free_key(job["id"])
        command = self._enqueue(job, NOBODY, same)
        expected = job["state"] if same else "idempotency_key_reused"
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == [expected]

    def _enqueue_under_a_free_key(self, key: str) -> None:
        if any(job["key"] == key for job in self.model.jobs):
            return
        asked = {"queue": "a", "kind": "a", "priority": 0, "max_attempts": 2}
        self.model.enqueue(b.an_id(len(self.model.jobs)), self.now, 0, key, **asked)
        command = self._enqueue(self.model.jobs[-1])
        assert self._everywhere(lambda driver: _states(driver.execute(command))) == ["queued"]

    @precondition(lambda self: any(job["key"] for job in self.model.jobs))
    @rule(pick=picks, known=st.integers(0, 2), conflict=st.booleans(), twice=st.booleans())
    def enqueue_batch(self, pick, known, conflict, twice):
        """New jobs and known ones in one request: all or none; a key that comes twice in it makes one job."""
        before = len(self.model.jobs)
        keyed = [job for job in self.model.jobs if job["key"] is not None]
        repeated = [keyed[(pick + each) % len(keyed)] for each in range(known)]
        new = Model()
        for each in range(before, before + 2):
            new.enqueue(b.an_id(each), self.now, 0, queue="a", kind="b", priority=0, max_attempts=2)
        commands = [self._enqueue(job, NOBODY) for job in repeated] + [self._enqueue(job) for job in new.jobs]
        if twice:
            commands.append(self._enqueue(new.jobs[0], NOBODY))
        if conflict:
            commands.append(self._enqueue(keyed[pick % len(keyed)], NOBODY, same=False))
            answer = ("idempotency_key_reused", len(commands) - 1)
        else:
            answer = [job["id"] for job in (*repeated, *new.jobs, *([new.jobs[0]] if twice else []))]
            for job in new.jobs:
                asked = {name: job[name] for name in ("queue", "kind", "priority", "max_attempts")}
                self.model.enqueue(job["id"], self.now, 0, **asked)
        assert self._everywhere(lambda driver: _batch(driver.enqueue_batch(commands))) == answer

    @rule(queues=some_names, kinds=some_names, limit=st.integers(1, 4))
    def lease(self, queues, kinds, limit):
        expected = self.model.lease(queues, kinds, limit, self.now)
        command = b.lease(duration=LEASE, now=self.now)
        assert self._everywhere(lambda driver: _ids(driver.lease(command, queues, kinds, limit))) == expected

    @rule(request=st.sampled_from(["r", "s", "t"]), limit=st.integers(1, 3))
    def lease_by_request(self, request, limit):
        """The first time it leases; again, it shows what is still held of that."""
        expected = self.model.lease_by_request(request, limit, self.now)
        command = b.lease(duration=LEASE, request_id=request, now=self.now)
        assert self._everywhere(lambda driver: _ids(driver.lease(command, limit=limit))) == expected

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=st.sampled_from(SETTLES), offset=tokens)
    def settle(self, pick, what, offset):
        """A worker ends, or prolongs, what it has."""
        self._deliver(self._send(what, self._picked(pick, "running"), offset))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=st.sampled_from(SETTLES))
    def settle_late(self, pick, what):
        """A worker that slept speaks up for a job that may be anywhere by now."""
        self._deliver(self._send(what, self._picked(pick), 0))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=st.sampled_from(SENT))
    def send_only(self, pick, what):
        """A command is on its way; it may come later."""
        self._send(what, self._picked(pick, "dead" if what == "requeue" else "running"), 0)

    @precondition(lambda self: self.sent)
    @rule(pick=st.integers(0, 1_000))
    def deliver(self, pick):
        """What was sent some time ago comes late, or once more, with the time and the token it was sent with."""
        self._deliver(self.sent[pick % len(self.sent)])

    @precondition(lambda self: self.sent)
    @rule(seed=st.integers(0, 1_000), number=st.integers(2, 6))
    def deliver_many(self, seed, number):
        """One request with several commands, the same one among them more than once, perhaps."""
        self._deliver(*Random(seed).choices(self.sent[-8:], k=number))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancel(self, pick):
        self._deliver(self._send("cancel", self._picked(pick), 0))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def requeue(self, pick):
        self._deliver(self._send("requeue", self._picked(pick, "dead"), 0))

    @rule()
    def requeue_all(self):
        """All that are dead, as the dead list has them."""
        dead = [job["id"] for job in self.model.shown() if job["state"] == "dead"]
        assert self._everywhere(_dead) == dead
        self._deliver(*(("requeue", job_id, 0, self.now) for job_id in dead))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, what=st.sampled_from(ENDINGS))
    def let_go(self, pick, what):
        """Retention, or an operator, lets something of a job go; of one that has ended, if there is any."""
        job = self._picked(pick, "succeeded" if pick % 2 else "dead")
        self._deliver((what, job["id"], 0, self.now))

    def _send(self, what: str, job: dict, offset: int) -> tuple[str, str, int, int]:
        self.sent.append((what, job["id"], max(0, job["token"] + offset), self.now))
        return self.sent[-1]

    def _deliver(self, *sent: tuple[str, str, int, int]) -> None:
        expected, commands = [], []
        for what, job_id, token, now in sent:
            if what in WITHOUT_TOKEN:
                expected.append(getattr(self.model, what)(job_id, now))
                commands.append(MAKERS[what](job_id, now=now))
            else:
                expected.append(self.model.settle(job_id, what, token, now))
                more = {"retry": False} if what == "die" else {}
                commands.append(MAKERS[what](job_id, token=token, now=now, **more))
        assert self._everywhere(lambda driver: _states(driver.execute(*commands))) == expected

    @rule()
    def expire(self):
        expired = self.model.expire(self.now)
        assert self._everywhere(lambda driver: len(driver.expire(self.now))) == expired

    # What happens to engines

    @rule(number=st.integers(0, 4))
    def abort(self, number):
        """What is appended and then dropped leaves nothing."""
        for driver in self.drivers.values():
            self._append_something(driver, number)
            driver.engine.abort()

    def _append_something(self, driver: Driver, number: int) -> None:
        """An open transaction that leases jobs and makes one."""
        now, transaction = self.model.time(self.now), driver.engine.begin()
        for job in transaction.candidates(None, None, now, number):
            transaction.append(job, b.leased(token=job.lease_token + 1), job.id, now, b.WORKER_ACTOR, None)
        transaction.append(None, b.enqueued(), NOBODY, now, b.PRODUCER_ACTOR, b.PAYLOAD)

    @rule()
    def close_and_open(self):
        for name, kind in self._engines.items():
            if kind.durable:
                self.drivers[name].engine.close()
                self._open(name)

    @rule(number=st.integers(0, 4))
    def crash(self, number):
        """In the middle of a transaction the process is gone. What it leaves is opened."""
        for name, kind in self._engines.items():
            if kind.crashed is not None:
                self._append_something(self.drivers[name], number)
                left = self._new_place(name)
                kind.crashed(self._places[name], left)
                self.drivers[name].engine.close()
                self._places[name] = left
                self._open(name)

    @rule()
    def make_projections_anew(self):
        """As after an update that changed the rule of each: they are folded from the first record."""
        for name, kind in self._engines.items():
            if kind.durable:
                self.drivers[name].engine.close()
                self._grown[name] += 1
                self._open(name)

    def _open(self, name: str) -> None:
        self.drivers[name] = Driver(self._engines[name].open_grown(self._places[name], self._grown[name]))

    # What must hold after each

    @invariant()
    def everything_is_as_it_must_be(self):
        for name, driver in self.drivers.items():
            with driver.engine.read() as reader:
                self._logs_are_gapless_and_folded(reader, self.folds[name])
                self._jobs_are_as_the_model_says(reader)
                self._read_models_are_as_the_model_says(reader)
        logs = [_log(driver) for driver in self.drivers.values()]
        assert all(log == logs[0] for log in logs)

    def _logs_are_gapless_and_folded(self, reader, fold: Fold) -> None:
        size = reader.head().size
        new = reader.records(fold.size, size)
        assert [record.position for record in new] == list(range(fold.size + 1, size + 1))
        fold.take(new)
        assert {job_id: reader.job(job_id) for job_id in fold.jobs} == fold.shown
        assert fold.differing(reader) == []

    def _jobs_are_as_the_model_says(self, reader) -> None:
        for job in self.model.jobs:
            if job["retired"]:
                assert reader.job(job["id"]) is None and history.positions(reader, job["id"]) == []
                continue
            met = reader.job(job["id"])
            assert (met.state, met.attempts, met.lease_token) == (job["state"], job["attempts"], job["token"])
            assert (None if met.lease is None else met.lease.expires_at) == job["expires_at"]
            assert (met.run_at, met.updated_at, met.finished_at) == (
                job["run_at"],
                job["updated_at"],
                job["finished_at"],
            )
            assert (met.version, len(history.positions(reader, job["id"]))) == (job["version"], job["version"])
            assert met.spec.idempotency_key == job["key"]
            assert job["holds"] or (met.spec.payload, met.result, met.error) == (None, None, None)
        assert reader.job(NOBODY) is None

    def _read_models_are_as_the_model_says(self, reader) -> None:
        now, counted = self.model.time(self.now), stats.read(reader)
        shown = self.model.shown()
        assert counted.jobs == {state: sum(job["state"] == state for job in shown) for state in STATES}
        assert (counted.events["job_leased"], counted.lease_expirations) == (self.model.leases, self.model.expirations)
        arrived = [(job["state"], job["queue"], job["id"]) for job in shown[::-1]]
        for state, queue in ((None, None), ("queued", "a"), ("succeeded", None)):
            page = listing.page(reader, state=state, kind=None, queue=queue, below=None, limit=1000)
            wanted = [job_id for *lane, job_id in arrived if state in (None, lane[0]) and queue in (None, lane[1])]
            assert [job_id for _, job_id in page] == wanted
        dead = dead_list.oldest(reader, kind=None, queue=None, limit=1000)
        assert {job_id for _, job_id in dead} == {job_id for state, _, job_id in arrived if state == "dead"}
        for stage in (HOLDING, BARE, KEYED):
            ends = {(lane.state, lane.queue, lane.kind): end for lane, end in reader.ending_lanes(stage)}
            assert ends == self.model.endings(stage)
        assert (reader.next_due(now), reader.next_expiry()) == (self.model.next_due(now), self.model.next_expiry())

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


def _ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def _batch(answer: list[Job] | BatchRejected) -> list[str] | tuple[str, int]:
    """The ids of a batch, or why it was refused and for which of its jobs."""
    return (str(answer.rejection.code), answer.index) if isinstance(answer, BatchRejected) else _ids(answer)


def _dead(driver: Driver) -> list[str]:
    with driver.engine.read() as reader:
        return [job_id for _, job_id in dead_list.oldest(reader, kind=None, queue=None, limit=1000)]


def _log(driver: Driver) -> tuple:
    """Head and records."""
    with driver.engine.read() as reader:
        return reader.head(), reader.records(0, 100_000)


def _even_steps(machine: EnginesAgree, random: Random) -> dict[Callable[[], None], int]:
    """Steps with all that they need drawn by a generator, and how often each comes."""
    pick, name = random.randrange(1_000), random.choice
    few, lanes = random.randrange(1, 4), random.choice([None, ["a", "b"]])
    steps: dict[Callable[[], None], int] = {
        lambda: machine.enqueue(few, name(NAMES), name(NAMES), 0, name([1, 2, 2, 3]), name([0, 0, 0.5, 3])): 6,
        lambda: machine.time_passes(name([1, 4, 16])): 10,
        lambda: machine.the_clock_jumps(name(JUMPS)): 2,
        machine.the_clock_is_set_right: 3,
        lambda: machine.lease(None, lanes, few): 14,
        lambda: machine.lease_by_request(name("uvwxyz"), few): 4,
        machine.expire: 6,
        lambda: machine.abort(few): 1,
        lambda: machine.crash(few): 1,
        machine.close_and_open: 1,
        machine.make_projections_anew: 1,
    }
    if machine.sent:
        steps |= {lambda: machine.deliver(pick): 6, lambda: machine.deliver_many(pick, few + 1): 6}
    if machine.model.jobs:
        steps |= {
            lambda: machine.settle(pick, name(SETTLES), name([0] * 9 + [-1])): 18,
            lambda: machine.settle_late(pick, name(SETTLES)): 6,
            lambda: machine.send_only(pick, name(SENT)): 6,
            lambda: machine.enqueue_again(pick, pick % 2 == 0): 2,
            lambda: machine.enqueue_batch(pick, few - 1, pick % 3 == 0, pick % 2 == 0): 2,
            lambda: machine.cancel(pick): 2,
            lambda: machine.requeue(pick): 6,
            machine.requeue_all: 1,
            lambda: machine.let_go(pick, name(ENDINGS)): 10,
        }
    return steps


def _live(machine: EnginesAgree, life: int, steps: int) -> set[str]:
    """Steps in a row, drawn by the life's number, or anew in the deep profile; the types of event that came up."""
    seed = SystemRandom().randrange(1 << 32) if PROFILE == "deep" else life
    random = Random(seed)
    try:
        machine.open_all()
        for _ in range(steps):
            choices = _even_steps(machine, random)
            (step,) = random.choices(list(choices), weights=list(choices.values()))
            step()
            machine.everything_is_as_it_must_be()
        return {record.event.type for record in _log(machine.drivers["memory"])[1]}
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        machine.teardown()


@pytest.mark.parametrize("life", range(LIVES[PROFILE][0]))
def test_long_lives(life):
    """Hundreds of steps in a row, drawn evenly: left to itself, Hypothesis prefers short lives and much repetition."""
    assert _live(EnginesAgree(), life, LIVES[PROFILE][1]) == set(EVENT_TYPES)


@pytest.mark.parametrize("life", range(WITH_SLOW_ONES[PROFILE][0]))
def test_lives_of_every_engine(life):
    """The same, fewer steps, with the engines that are slow."""
    assert len(_live(EnginesAgree(ENGINES), life, WITH_SLOW_ONES[PROFILE][1])) > 5


TestEnginesAgree = EnginesAgree.TestCase
