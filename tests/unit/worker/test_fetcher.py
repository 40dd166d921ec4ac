"""The fetcher: it takes what there is room for, loses no grant, and lives through outages."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.client import Problem, Refused, StaleToken, Unavailable, Unreachable
from eventjobs.worker.outage import is_away


def test_it_asks_for_the_registered_kinds_and_for_free_slots_only(play):
    """A request names the worker, its queues and kinds, and as many jobs as handlers can start at once."""

    async def scene(stage):
        stage.worker.handler("a")(lambda job: None)

        @stage.worker.handler("b")
        async def b(job):
            await asyncio.sleep(1)

        for _ in range(7):
            stage.coordinator.add("b", queue="q")
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in stage.coordinator.rows.values()))
        first = stage.coordinator.leases[0]
        assert (first["worker"], first["kinds"], first["queues"]) == ("w", ("a", "b"), ("q",))
        assert (first["max_jobs"], first["lease_seconds"], first["wait_seconds"]) == (3, 30.0, 10.0)
        assert max(each["max_jobs"] for each in stage.coordinator.leases) == 3

    play(scene, concurrency=3, queues=["q"])


@pytest.mark.parametrize(
    ("lease_seconds", "poll_seconds", "wait_seconds"), [(30, 20, 10), (60, 20, 20), (3, 60, 1), (0.3, 20, 0.1)]
)
def test_a_lost_answer_is_missed_while_its_jobs_are_held(play, lease_seconds, poll_seconds, wait_seconds):
    """No request is held open for longer than a third of a lease: its jobs can be leased at its very beginning."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.leases)
        assert stage.coordinator.leases[0]["wait_seconds"] == pytest.approx(wait_seconds)

    play(scene, lease_seconds=lease_seconds, poll_seconds=poll_seconds)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_never_more_handlers_than_concurrency(play, concurrency):
    """However many jobs wait, at most `concurrency` handlers run at once, and that many do."""

    async def scene(stage):
        now, most = 0, 0

        @stage.worker.handler("work")
        async def work(job):
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(1 + job.payload % 3)
            now -= 1

        rows = [stage.coordinator.add("work", number) for number in range(20)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        assert most == concurrency

    play(scene, concurrency=concurrency)


def test_what_was_never_sent_is_no_attempt(play):
    """Who came before its coordinator waits for jobs as ever then, and has no reason to renew a lease at once."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        refused = iter([Unreachable("connection refused", sent=False)] * 2)
        stage.coordinator.refuse["lease"] = lambda asked: next(refused, None)
        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert row.log == ["leased", "completed"]
        assert {each["wait_seconds"] for each in stage.coordinator.leases} == {10.0}

    play(scene)


def test_a_lost_answer_costs_no_attempt(play):
    """The request is repeated under its id until it is answered; the grants are the same, and renewed at once."""

    async def scene(stage):
        attempts = []

        @stage.worker.handler("work")
        async def work(job):
            attempts.append(job.attempt)
            await asyncio.sleep(5)

        row = stage.coordinator.add("work")
        stage.coordinator.lose["lease"] = 2
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert attempts == [1]
        assert row.log == ["leased", "renewed", "completed"]
        first, second, third, fourth = (asked["request_id"] for asked in stage.coordinator.leases[:4])
        assert first == second == third != fourth

    play(scene)


def test_grants_that_came_and_went_in_an_outage_hold_nothing_up(play):
    """The repeated request gets nothing, and does not wait for what it can never get; the next one takes the work."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        row = stage.coordinator.add("work")
        stage.coordinator.lose["lease"] = 1
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.down = True
        await asyncio.sleep(60)
        stage.coordinator.expire()
        stage.coordinator.down = False
        began = asyncio.get_running_loop().time()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert asyncio.get_running_loop().time() - began <= 5
        assert row.log == ["leased", "expired", "leased", "completed"]

    play(scene, concurrency=1)


def test_an_outage_is_lived_through(play):
    """While the coordinator is away the worker asks on, calmly; it says so once, and goes on by itself."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        stage.coordinator.down = True
        stage.start()
        await asyncio.sleep(600)
        assert 600 / 5 <= stage.coordinator.calls["lease"] <= 600
        stage.coordinator.down = False
        row = stage.coordinator.add("work")
        began = asyncio.get_running_loop().time()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert asyncio.get_running_loop().time() - began <= 5
        assert len(stage.said("coordinator_unreachable")) == len(stage.said("coordinator_answers_again")) == 1

    play(scene)


@pytest.mark.parametrize("status", [500, 503, 507])
def test_a_coordinator_in_trouble_is_an_outage(play, status):
    """Refusals with a status of 500 and more are waited out."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        kind = Unavailable if status == 503 else Refused
        refusals = [kind(Problem(code="trouble", status=status))] * 3
        stage.coordinator.refuse["lease"] = lambda asked: refusals.pop() if refusals else None
        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert stage.coordinator.calls["lease"] >= 4

    play(scene)


def test_a_refusal_stops_the_worker_with_the_reason(play, not_found):
    """When the coordinator says that the request is wrong, what runs may finish, and then the reason is raised."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(3)

        row = stage.coordinator.add("work")
        stage.coordinator.refuse["lease"] = lambda asked: not_found if row.state == "running" else None
        stage.start()
        with pytest.raises(Refused, match="not_found: no such path"):
            await stage.serving
        assert row.state == "succeeded"
        assert stage.said("worker_refused")
        assert stage.coordinator.calls["lease"] == 2

    play(scene)


def test_a_coordinator_that_does_not_hold_requests_open_is_not_flooded(play):
    """Empty answers that come at once are not asked for again at once."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        stage.start()
        await asyncio.sleep(100)
        assert 10 <= stage.coordinator.calls["lease"] <= 60

    play(scene, poll_seconds=0)


def test_no_more_is_taken_while_outcomes_cannot_be_sent(play):
    """Outcomes that wait to be sent are bounded: the worker stops taking jobs at twice its concurrency."""

    async def scene(stage):
        stage.worker.handler("work")(_nothing)
        for _ in range(50):
            stage.coordinator.add("work")
        gate = stage.coordinator.gate("complete")
        stage.start()
        await asyncio.sleep(30)
        states = [row.state for row in stage.coordinator.rows.values()]
        assert states.count("running") == 10
        gate.set()
        await stage.coordinator.until(lambda: all(r.state == "succeeded" for r in stage.coordinator.rows.values()))

    play(scene, concurrency=5)


def test_processes_of_one_name_do_not_answer_for_each_other(play):
    """Request ids begin with chance: a worker that comes back under its name is not given what the last one held."""
    prefixes = set()

    async def scene(stage):
        stage.worker._rng = None
        stage.worker.handler("work")(_nothing)
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.leases)
        prefixes.add(stage.coordinator.leases[0]["request_id"].partition("-")[0])

    play(scene)
    play(scene)
    assert len(prefixes) == 2


def test_a_stale_token_at_the_fetcher_is_no_outage():
    """Conflicts are the coordinator's word, whoever is told."""
    assert not is_away(StaleToken(Problem(code="stale_token", status=409)))


async def _nothing(job):
    return None
