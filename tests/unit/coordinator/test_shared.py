"""Several coordinators over one store: each notices what the others do, and none is ended by the store's absence."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable

import pytest

from eventjobs.coordinator import coordinator as coordinators
from eventjobs.coordinator import neighbours, rescuer
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.looking import Looking
from eventjobs.coordinator.replies import StoreAway, UnknownOutcome
from eventjobs.domain.job import Job
from eventjobs.domain.retention import parse_rules
from eventjobs.store.contract import Away, OutcomeUnknown, Pulse, StoreError, TryAgain
from eventjobs.testing import builders as b
from eventjobs.testing.shared_memory import SharedStore

SECONDS_MAX = 10.0
FAR_AHEAD = b.seconds(5_000)


class Crowd:
    """Two coordinators over one store, whose clock is another than theirs."""

    def __init__(self) -> None:
        self.store = SharedStore(lambda: time.time_ns() // 1_000 + FAR_AHEAD)
        self.coordinators: list[Coordinator] = []
        self._ids = itertools.count(1)

    async def start(self, retention: str = "") -> Coordinator:
        engine = self.store.engine()
        self.coordinators.append(await Coordinator.start(engine, retention=parse_rules(retention)))
        return self.coordinators[-1]

    async def enqueue(self, at: Coordinator, **members) -> Job:
        (reply,) = await at.enqueue([b.enqueue(b.an_id(next(self._ids)), now=0, **members)])
        return reply.job

    async def lease(self, at: Coordinator, *, wait: float = 0, queues=None, max_jobs: int = 1, **members) -> list[Job]:
        return await at.lease(b.lease(now=0, **members), queues, None, max_jobs, b.seconds(wait))

    def types(self) -> list[str]:
        with self.store.content.read() as view:
            return [record.event.type for record in view.records(0, 1_000)]


@pytest.fixture
async def crowd() -> AsyncIterator[Crowd]:
    crowd = Crowd()
    yield crowd
    crowd.store.away = False
    for coordinator in crowd.coordinators:
        await coordinator.stop()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("hints", [True, False])
async def test_a_job_put_in_elsewhere_wakes_who_waits_here(crowd, hints):
    """With a hint, and within the time of a look without one."""
    crowd.store.hints = hints
    here, there = await crowd.start(), await crowd.start()
    waiting = asyncio.create_task(crowd.lease(here, wait=SECONDS_MAX))
    await until(lambda: here._waiters._waiting and not here.pending)
    began = time.monotonic()
    job = await crowd.enqueue(there)
    (leased,) = await waiting
    assert leased.id == job.id and time.monotonic() - began < SECONDS_MAX / 2


async def test_many_jobs_put_in_elsewhere_wake_as_many(crowd):
    """One look is enough for all who wait, each of whom takes one."""
    crowd.store.hints = False
    here, there = await crowd.start(), await crowd.start()
    waiting = [asyncio.create_task(crowd.lease(here, wait=SECONDS_MAX)) for _ in range(20)]
    await until(lambda: len(here._waiters._waiting) == 20 and not here.pending)
    await there.enqueue([b.enqueue(b.an_id(900 + number)) for number in range(20)])
    async with asyncio.timeout(SECONDS_MAX / 2):
        leased = [jobs[0].id for jobs in await asyncio.gather(*waiting)]
    assert len(set(leased)) == 20


async def test_one_look_wakes_every_sort_of_waiter(crowd):
    """Who wants one queue is woken beside who wants another, and beside who takes anything."""
    crowd.store.hints = False
    here, there = await crowd.start(), await crowd.start()
    asked = [["q"], ["r"], ["q", "s"]]
    waiting = [asyncio.create_task(crowd.lease(here, wait=SECONDS_MAX, queues=queues)) for queues in asked]
    await until(lambda: len(here._waiters._waiting) == 3 and not here.pending)
    await there.enqueue([b.enqueue(b.an_id(900 + number), queue=queue) for number, queue in enumerate("qrs")])
    async with asyncio.timeout(SECONDS_MAX / 2):
        leased = await asyncio.gather(*waiting)
    assert [jobs[0].spec.queue for jobs in leased] in (["q", "r", "s"], ["q", "r", "q"])


async def test_a_job_that_comes_due_elsewhere_wakes_who_waits_here(crowd):
    """A delay that another coordinator was told of is kept here too."""
    here, there = await crowd.start(), await crowd.start()
    waiting = asyncio.create_task(crowd.lease(here, wait=SECONDS_MAX))
    await until(lambda: here._waiters._waiting and not here.pending)
    job = await crowd.enqueue(there, delay=b.seconds(0.5))
    (leased,) = await waiting
    assert leased.id == job.id and leased.run_at <= leased.lease.leased_at


async def test_a_lease_taken_elsewhere_is_ended_once(crowd):
    """Two rescuers see the same lease run out. One ends it, after its time by the store's clock."""
    here, there, _ = await crowd.start(), await crowd.start(), await crowd.start()
    await crowd.enqueue(there)
    (job,) = await crowd.lease(there, duration=b.seconds(0.3))
    await there.stop()
    crowd.coordinators.remove(there)
    await until(lambda: "lease_expired" in crowd.types())
    with crowd.store.content.read() as view:
        assert view.records(2, 1)[0].time >= job.lease.expires_at
    pulses = crowd.store.engines[0].pulses
    await until(lambda: crowd.store.engines[0].pulses > pulses + 1)
    assert crowd.types().count("lease_expired") == 1
    assert (await crowd.lease(here))[0].id == job.id


async def test_times_are_the_stores(crowd):
    """Times, delays and leases count from the store's clock, whatever a coordinator's own clock says."""
    here = await crowd.start()
    job = await crowd.enqueue(here, delay=b.seconds(100))
    assert abs(job.updated_at - crowd.store.clock()) < b.seconds(10)
    assert job.run_at - job.updated_at == b.seconds(100)
    assert abs(here.clock.now() - crowd.store.clock()) < b.seconds(10)
    await crowd.enqueue(here)
    (leased,) = await crowd.lease(here, duration=b.seconds(30))
    assert leased.lease.expires_at - leased.updated_at == b.seconds(30)


async def test_a_store_that_is_away_is_waited_for(crowd, monkeypatch):
    """Requests and questions are refused for now, the coordinator is not ready; when the store is back, all goes on."""
    monkeypatch.setattr(neighbours, "LOOK_SECONDS", 0.1)
    here = await crowd.start()
    await crowd.enqueue(here)
    crowd.store.away = True
    with pytest.raises(StoreAway):
        await crowd.enqueue(here)
    assert not here.ready
    with pytest.raises(StoreAway):
        await crowd.enqueue(here)
    with pytest.raises(StoreAway):
        await here.look(lambda view: view.head())
    crowd.store.away = False
    await until(lambda: here.ready)
    await crowd.enqueue(here)
    assert (await here.look(lambda view: view.head())).size == 2


async def test_a_question_finds_that_the_store_is_away(crowd, monkeypatch):
    """A coordinator that nobody writes to learns it from the first question, and is ready again by itself."""
    here = await crowd.start()
    engine = crowd.store.engines[0]
    pulse = engine.pulse()
    monkeypatch.setattr(engine, "pulse", lambda: pulse)  # so that no look of its own finds it first
    crowd.store.away = True
    with pytest.raises(StoreAway):
        await here.look(lambda view: view.head())
    assert not here.ready
    crowd.store.away = False
    await until(lambda: here.ready)


async def test_an_unknown_outcome_is_no_end(crowd):
    """The request is told so; the coordinator lives and takes the next."""
    here = await crowd.start()
    crowd.store.engines[0].failures.append(OutcomeUnknown("the connection broke"))
    with pytest.raises(UnknownOutcome):
        await crowd.enqueue(here)
    await crowd.enqueue(here)
    assert here.ready


async def test_leases_that_ran_out_during_an_outage_are_spared_for_a_moment(crowd, monkeypatch):
    """Workers that finished meanwhile had nobody to tell."""
    monkeypatch.setattr(neighbours, "OUTAGE_SECONDS", 0.2)
    monkeypatch.setattr(neighbours, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(rescuer, "GRACE_AFTER_OUTAGE", b.seconds(1.5))
    here = await crowd.start()
    await crowd.enqueue(here)
    (job,) = await crowd.lease(here, duration=b.seconds(0.2))
    crowd.store.away = True
    await until(lambda: here._away)
    await until(lambda: crowd.store.clock() > job.lease.expires_at + b.seconds(0.3))
    crowd.store.away = False
    await until(lambda: here.ready)
    back = crowd.store.clock()
    await until(lambda: "lease_expired" in crowd.types())
    assert crowd.store.clock() - back > b.seconds(1)


async def test_a_watcher_of_the_log_hears_of_what_others_append(crowd):
    """Whoever follows the log here sees what was written elsewhere."""
    here, there = await crowd.start(), await crowd.start()
    watching = asyncio.create_task(here.log_moved(0, SECONDS_MAX))
    await until(lambda: here._log_watchers)
    await crowd.enqueue(there)
    assert await watching


async def test_what_others_finished_is_retained_by_the_rules_here(crowd, monkeypatch):
    """The rules hold for all jobs, also when the coordinator that finished one is gone."""
    monkeypatch.setattr(coordinators, "MAINTENANCE_SECONDS", 0.1)
    await crowd.start(retention="succeeded 1s")
    there = await crowd.start()
    job = await crowd.enqueue(there)
    await crowd.lease(there)
    await there.execute([b.complete(job.id, now=0)])
    await there.stop()
    crowd.coordinators.remove(there)
    await until(lambda: "job_retired" in crowd.types())


async def test_nothing_is_appended_while_nothing_happens(crowd):
    """Coordinators that only look at each other leave no trace in the log."""
    await crowd.enqueue(await crowd.start())
    await crowd.start()
    pulses = [engine.pulses for engine in crowd.store.engines]
    await until(lambda: all(e.pulses > p + 1 for e, p in zip(crowd.store.engines, pulses, strict=True)))
    assert crowd.types() == ["job_enqueued"]


@pytest.mark.parametrize(("error", "text"), [(Away("gone"), "reached"), (TryAgain("a timeout"), "busy")])
async def test_a_question_that_cannot_be_answered_now_is_refused(crowd, error, text):
    """What the store raises amid a question is told as a refusal for now."""

    def question(view):
        raise error

    looking = Looking(crowd.store.engine())
    with pytest.raises(Exception, match=text) as refused:
        await looking.look(question)
    assert refused.value.code == "overloaded"
    await looking.close()


async def test_a_store_that_is_busy_is_not_away(crowd, monkeypatch):
    """A look that was broken off for the sake of others says nothing about whether the store is there."""

    def busy() -> Pulse:
        looked.append(1)
        raise TryAgain("a lock")

    here, looked = await crowd.start(), []
    monkeypatch.setattr(neighbours, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(here._engine, "pulse", busy)
    await until(lambda: len(looked) > 2)
    assert here.ready
    await crowd.enqueue(here)


async def test_an_intake_that_is_not_known_is_left_as_it_was(crowd, monkeypatch):
    """A look that could not ask it neither forgets since when a request waits, nor begins to take any in."""
    here, looked = await crowd.start(), []

    def unknown() -> Pulse:
        looked.append(1)
        return Pulse(0, crowd.store.clock(), None, intake_known=False)

    monkeypatch.setattr(neighbours, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(here._engine, "pulse", unknown)
    await until(lambda: len(looked) > 1)
    here.asked_at = 5
    seen = len(looked)
    await until(lambda: len(looked) > seen + 1)
    assert here.asked_at == 5


@pytest.mark.parametrize("error", [StoreError("refused"), RuntimeError("anything")])
async def test_a_look_that_fails_is_not_the_last(crowd, monkeypatch, error):
    """What nobody expected of the store passes for its absence, until a look is answered again."""

    def fails() -> Pulse:
        failed.append(1)
        raise error

    crowd.store.hints = False
    here, failed = await crowd.start(), []
    monkeypatch.setattr(here._engine, "pulse", fails)
    await until(lambda: not here.ready and failed)
    monkeypatch.undo()
    there = await crowd.start()
    waiting = asyncio.create_task(crowd.lease(there, wait=SECONDS_MAX))
    await until(lambda: here.ready)
    job = await crowd.enqueue(here)
    assert [each.id for each in await waiting] == [job.id]
