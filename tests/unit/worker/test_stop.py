"""Stopping: in good order, within bounds, and with every job handed back unharmed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from eventjobs import Worker
from eventjobs.domain.limits import NO_KIND


def test_handlers_may_finish_within_the_time_of_grace(play):
    """No more jobs are taken; what runs and ends in time is completed."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(job.payload)

        quick, slow = stage.coordinator.add("work", 10), stage.coordinator.add("work", 20)
        stage.start()
        await stage.coordinator.until(lambda: quick.state == slow.state == "running")
        late = None
        began = asyncio.get_running_loop().time()
        stopping = asyncio.create_task(stage.stop())
        await asyncio.sleep(1)
        late = stage.coordinator.add("work", 0)
        await stopping
        assert (quick.state, slow.state, late.state) == ("succeeded", "succeeded", "queued")
        assert asyncio.get_running_loop().time() - began == pytest.approx(20, abs=0.1)
        assert stage.said("worker_stopped")[0]["held"] == 0

    play(scene)


def test_what_is_left_after_the_grace_is_canceled_and_released(play):
    """The attempt does not count, and the job is there for others at once."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(1_000)

        rows = [stage.coordinator.add("work") for _ in range(40)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "running" for row in rows))
        began = asyncio.get_running_loop().time()
        await stage.stop()
        assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
        assert {(row.state, row.attempts, row.log[-1]) for row in rows} == {("queued", 0, "released")}
        assert len(stage.said("job_released")) == 40

    play(scene, grace_seconds=5)


def test_a_handler_that_will_not_be_canceled_holds_nothing_up(play):
    """It gets a second to end; then its job is released, and what it returns later goes nowhere."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            for _ in range(3):
                try:
                    await asyncio.sleep(1_000)
                except asyncio.CancelledError:
                    assert job.canceled
            return "too late"

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        began = asyncio.get_running_loop().time()
        await stage.stop()
        assert asyncio.get_running_loop().time() - began <= 5 + 1 + 3 + 1
        assert row.log == ["leased", "released"]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    play(scene, grace_seconds=5)


def test_a_thread_that_does_not_end_holds_nothing_up(play):
    """Its job is released; the thread is left to itself."""
    leave = threading.Event()

    async def scene(stage):
        @stage.worker.handler("work")
        def work(job):
            return leave.wait(20)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        await stage.stop()
        assert row.log == ["leased", "released"]

    play(scene, real=True, grace_seconds=0.1)
    leave.set()


def test_the_threads_end_with_the_worker(play):
    """A program that starts and stops workers does not gather threads, whatever they ran last."""

    def threads():
        return [thread for thread in threading.enumerate() if thread.name.startswith("eventjobs-handler-")]

    before = set(threads())
    ours = []

    async def scene(stage):
        together = threading.Barrier(3)

        @stage.worker.handler("work")
        def work(job):
            together.wait(20)

        rows = [stage.coordinator.add("work") for _ in range(3)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        ours.extend(thread for thread in threads() if thread not in before)
        assert len(ours) == 3
        await stage.stop()

    play(scene, real=True)
    for thread in ours:
        thread.join(5)
    assert not any(thread.is_alive() for thread in ours)


def test_a_handler_that_returns_when_told_to_stop_has_not_succeeded(play):
    """`if job.canceled: return` is how threads stop; the job is released, not completed with nothing."""

    async def scene(stage):
        @stage.worker.handler("work")
        def work(job):
            job.wait_canceled(20)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        await stage.stop()
        assert row.log == ["leased", "released"]

    play(scene, real=True, grace_seconds=0.05)


def test_an_answer_that_is_cut_off_loses_no_job(play):
    """Jobs granted to the request in flight are asked for again and released; none waits for its lease to end."""

    async def scene(stage):
        ran = []

        @stage.worker.handler("work")
        async def work(job):
            ran.append(job.id)

        stage.coordinator.gate("lease answered")
        rows = [stage.coordinator.add("work") for _ in range(3)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "running" for row in rows))
        stopping = asyncio.create_task(stage.stop())
        await stage.coordinator.until(lambda: stage.coordinator.calls["lease"] == 2)
        stage.coordinator.gates["lease answered"].set()
        await stopping
        first, again = stage.coordinator.leases
        assert (again["request_id"], again["wait_seconds"]) == (first["request_id"], 0)
        assert list(again["kinds"]) == [NO_KIND]  # had it not been carried out, nothing would be taken now
        assert {(row.state, row.attempts) for row in rows} == {("queued", 0)}
        assert ran == []

    play(scene)


def test_an_idle_worker_stops_at_once(play):
    """A long-poll in flight is cut; it is not waited for."""

    async def scene(stage):
        stage.worker.handler("work")(lambda job: None)
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.leases)
        began = asyncio.get_running_loop().time()
        await stage.stop()
        assert asyncio.get_running_loop().time() == began

    play(scene)


def test_stopping_in_an_outage_is_bounded(play):
    """Outcomes and releases that cannot be sent are left to their leases; the last line counts them."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(job.payload)

        rows = [stage.coordinator.add("work", seconds) for seconds in (1, 1_000)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "running" for row in rows))
        stage.coordinator.down = True
        await asyncio.sleep(10)
        began = asyncio.get_running_loop().time()
        await stage.stop()
        assert asyncio.get_running_loop().time() - began == pytest.approx(5 + 3, abs=0.1)
        assert stage.said("worker_stopped")[0]["held"] == 2

    play(scene, grace_seconds=5)


def test_outcomes_are_sent_before_the_worker_ends(play):
    """Stopping waits for the acknowledgement of what has ended."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            return 1

        row = stage.coordinator.add("work")
        gate = stage.coordinator.gate("complete")
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.calls["complete"])
        stopping = asyncio.create_task(stage.stop())
        await asyncio.sleep(1)
        assert not stopping.done()
        gate.set()
        await stopping
        assert row.state == "succeeded"

    play(scene)


def test_a_refused_release_is_told_and_let_go(play):
    """The lease was lost in the last moment: nothing is left to give back."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            try:
                await asyncio.sleep(1_000)
            finally:
                stage.coordinator.cancel(row)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        await stage.stop()
        assert [line["code"] for line in stage.said("release_refused")] == ["stale_token"]

    play(scene, grace_seconds=1)


def test_a_worker_asked_to_stop_before_it_runs_takes_nothing(play):
    """The request is remembered, once; the worker can serve again afterwards."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            return 1

        row = stage.coordinator.add("work")
        stage.worker.request_stop()
        await stage.worker.serve()
        assert row.state == "queued"
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")

    play(scene)


def test_a_worker_can_be_asked_from_another_thread(play):
    """request_stop is safe to call from anywhere."""

    async def scene(stage):
        stage.worker.handler("work")(lambda job: None)
        stage.start()
        await stage.coordinator.until(lambda: stage.coordinator.leases)
        await asyncio.to_thread(stage.worker.request_stop)
        await stage.serving
        assert stage.said("worker_stopped")

    play(scene, real=True)


@pytest.mark.parametrize("closed", [False, True])
def test_a_request_to_stop_may_meet_the_end_of_the_worker(closed):
    """The worker may end, and its loop be closed, while another thread asks it to stop."""

    class Ending(Worker):
        """A worker that has ended by the second time somebody looks."""

        @property
        def _loop(self):
            loop, self._shown = self._shown, None
            return loop

        @_loop.setter
        def _loop(self, loop):
            self._shown = loop

    worker = Ending()
    worker._loop = loop = asyncio.new_event_loop()
    try:
        if closed:
            loop.close()
        worker.request_stop()
        if not closed:
            loop.run_until_complete(asyncio.sleep(0))
        assert worker._stopping.is_set() is not closed
    finally:
        loop.close()


def test_canceling_serve_cancels_the_handlers(play):
    """Whoever cancels the worker's task gets an end at once; nothing is sent, and nothing goes on behind."""

    async def scene(stage):
        started, ended = asyncio.Event(), []

        @stage.worker.handler("work")
        async def work(job):
            started.set()
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(job.canceled)

        stage.coordinator.add("work")
        stage.start()
        await started.wait()
        stage.serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stage.serving
        assert ended == [True]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert stage.coordinator.calls["release"] == 0

    play(scene)
