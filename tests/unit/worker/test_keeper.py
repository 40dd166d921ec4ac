"""The keeper: what is held stays held, and what is lost is let go."""

from __future__ import annotations

import asyncio

import pytest


def test_every_held_job_is_renewed_each_third_of_its_lease(play):
    """Long handlers never lose their leases, and one request renews them all."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(95)

        rows = [stage.coordinator.add("work") for _ in range(20)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        assert stage.coordinator.batches["renew"] == [20] * 9
        assert {row.token for row in rows} == {1}

    play(scene, lease_seconds=30)


def test_a_job_that_waits_to_be_settled_is_renewed(play):
    """The lease is kept until the coordinator has acknowledged the end."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            return 1

        row = stage.coordinator.add("work")
        gate = stage.coordinator.gate("complete")
        stage.start()
        await asyncio.sleep(95)
        gate.set()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert row.log == ["leased", *["renewed"] * 9, "completed"]

    play(scene, lease_seconds=30)


def test_a_renewal_is_repeated_for_those_that_are_still_held(play):
    """What was settled while its answer was under way, and was lost, is not asked for again."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(job.payload)

        short, long = stage.coordinator.add("work", 12), stage.coordinator.add("work", 18)
        gate = stage.coordinator.gate("renew answered")
        stage.coordinator.lose["renew"] = 1
        stage.start()
        await stage.coordinator.until(lambda: short.state == "succeeded")
        gate.set()
        await stage.coordinator.until(lambda: long.state == "succeeded")
        assert stage.coordinator.batches["renew"] == [2, 1]

    play(scene, lease_seconds=30)


def test_a_canceled_job_stops_its_handler(play):
    """A refused renewal cancels the handler; its outcome is not sent, and the slot is free again."""

    async def scene(stage):
        ended = []

        @stage.worker.handler("work")
        async def work(job):
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(job.canceled)

        @stage.worker.handler("next")
        async def following(job):
            return "done"

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.cancel(row)
        other = stage.coordinator.add("next")
        await stage.coordinator.until(lambda: other.state == "succeeded")
        assert ended == [True]
        assert row.log == ["leased", "canceled"]
        (over,) = stage.said("lease_over")
        assert (over["job_id"], over["worker"], over["token"]) == (row.id, "w", 1)
        assert (over["log_level"], over["reason"]) == ("info", "the job is canceled")
        assert not stage.said("lease_lost")

    play(scene, concurrency=1)


def test_an_expired_lease_stops_its_handler(play):
    """A renewal that comes too late is as good as a stale one: the handler is canceled."""

    async def scene(stage):
        canceled = asyncio.Event()

        @stage.worker.handler("work")
        async def work(job):
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                canceled.set()
                raise

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.expire = lambda: None  # the log does not know yet
        row.expires_at = 0
        await canceled.wait()
        assert [line["code"] for line in stage.said("lease_lost")] == ["lease_expired"]
        row.state = "canceled"

    play(scene)


@pytest.mark.parametrize("held_back", ["renew", "renew answered"])
def test_a_renewal_that_crosses_a_completion_is_no_lost_lease(play, held_back):
    """A renewal may be refused because the completion came first; nobody is told of a lost lease."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(11)

        row = stage.coordinator.add("work")
        gate = stage.coordinator.gate(held_back)
        answered = stage.coordinator.gate("complete answered")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        gate.set()  # the renewal is answered before the completion is
        await asyncio.sleep(1)
        answered.set()
        await asyncio.sleep(1)
        assert stage.coordinator.batches["renew"][0] == 1
        assert stage.said("job_completed")
        assert not stage.said("lease_lost")
        assert not stage.said("outcome_dropped")

    play(scene, lease_seconds=30)


def test_handlers_go_on_through_an_outage_longer_than_their_lease(play):
    """Only the coordinator says that a lease is lost. An outcome of that time is sent, and accepted if it is due."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(job.payload)
            return "kept"

        quick, slow = stage.coordinator.add("work", 100), stage.coordinator.add("work", 500)
        stage.start()
        await stage.coordinator.until(lambda: quick.state == slow.state == "running")
        stage.coordinator.expire = lambda: None  # it was down: nothing expired in the log yet
        stage.coordinator.down = True
        await asyncio.sleep(200)
        stage.coordinator.down = False
        await stage.coordinator.until(lambda: quick.state == "succeeded")
        await stage.coordinator.until(lambda: stage.said("lease_lost"))
        assert stage.said("lease_lost")[0]["job_id"] == slow.id
        assert quick.log.count("leased") == 1

    play(scene, lease_seconds=30, grace_seconds=0)


def test_an_outcome_after_the_lease_was_given_away_is_refused_and_dropped(play):
    """The fence at work: a late outcome changes nothing, and the worker says that it was refused."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(100 if job.attempt == 1 else 0)
            return job.token

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.down = True
        await asyncio.sleep(150)
        stage.coordinator.down = False
        await stage.coordinator.until(lambda: row.state == "succeeded")
        await stage.stop()
        assert bytes(row.result) == b"2"
        assert [line["code"] for line in stage.said("outcome_refused")] == ["stale_token"]

    play(scene, lease_seconds=30)


def test_a_blocked_event_loop_is_told(play):
    """A handler that blocks the loop delays the renewals; the keeper says so when it is a third of the lease late."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            asyncio.get_running_loop().advance(job.payload)

        row = stage.coordinator.add("work", 12)
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        await asyncio.sleep(30)
        assert not stage.said("keeper_late")
        row = stage.coordinator.add("work", 25)
        await stage.coordinator.until(lambda: row.state in ("succeeded", "queued"))
        await asyncio.sleep(30)
        (late,) = stage.said("keeper_late")
        assert 10 < late["late_seconds"] <= 25
        assert "blocked the worker's event loop" in late["reason"] and "plain function" in late["advice"]

    play(scene, lease_seconds=30)


def test_an_outage_is_not_taken_for_a_blocked_event_loop(play):
    """A round of renewals that had to wait for the coordinator is late for no fault of a handler."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(200)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        stage.coordinator.expire = lambda: None
        stage.coordinator.down = True
        await asyncio.sleep(100)
        stage.coordinator.down = False
        await stage.coordinator.until(lambda: stage.said("lease_lost"))
        await asyncio.sleep(30)
        assert not stage.said("keeper_late")
        row.state = "canceled"

    play(scene, lease_seconds=30)


def test_refused_renewals_do_not_stop_the_worker(play, not_found):
    """A coordinator that refuses the whole request is told of, and asked again at the next turn."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(25)

        refusals = [not_found]
        stage.coordinator.refuse["renew"] = lambda asked: refusals.pop() if refusals else None
        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert row.log == ["leased", "renewed", "completed"]
        assert [line["code"] for line in stage.said("renewals_refused")] == ["not_found"]

    play(scene, lease_seconds=30)
