"""What the worker's log says of jobs: enough to mend a handler, and nothing that looks like a fault but is none."""

from __future__ import annotations

import asyncio
import traceback
from itertools import count

from eventjobs import Worker
from eventjobs.worker.shift import JOBS_SHOWN_MAX


def test_a_failing_handlers_traceback_is_there_for_who_debugs(play):
    """At the level debug, and beginning with the handler's own frames."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            raise LookupError("no such picture")

        @stage.worker.handler("thread")
        def thread(job):
            raise LookupError("no such thread")

        stage.coordinator.add("work")
        stage.coordinator.add("thread")
        stage.start()
        await stage.coordinator.until(lambda: len(stage.said("handler_raised")) == 2)
        for line in stage.said("handler_raised"):
            assert line["log_level"] == "debug"
            shown = "".join(traceback.format_exception(*line["exc_info"]))
            assert "no such" in shown and "raise LookupError" in shown
            assert "eventjobs/worker/" not in shown

    play(scene, real=True)  # threads take their own time


def test_an_outcome_of_a_canceled_job_is_no_fault(play):
    """The handler had ended before the worker knew: the line says why its outcome was not taken."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            stage.coordinator.cancel(row)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: stage.said("outcome_refused"))
        (line,) = stage.said("outcome_refused")
        assert (line["log_level"], line["reason"]) == ("info", "the job is canceled")

    play(scene)


def test_a_lost_lease_says_why(play):
    """The coordinator's words are in the line."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(1_000)

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "running")
        row.token, row.state = 2, "queued"
        row.run_at = 1e9
        await stage.coordinator.until(lambda: stage.said("lease_lost"))
        (line,) = stage.said("lease_lost")
        assert (line["log_level"], line["reason"]) == ("warning", "token 1 is not the job's current token 2")

    play(scene)


def test_a_stopping_worker_names_what_still_runs(play):
    """The jobs it waits for, by kind and id, but no endless list; nothing about signals when there was none."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(5)

        rows = [stage.coordinator.add("work") for _ in range(JOBS_SHOWN_MAX + 5)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "running" for row in rows))
        await stage.stop()
        (line,) = stage.said("worker_stopping")
        assert line["running"] == JOBS_SHOWN_MAX + 5
        assert len(line["jobs"]) == JOBS_SHOWN_MAX
        assert set(line["jobs"]) < {f"work {row.id}" for row in rows}
        assert "second_signal" not in line

    play(scene)


def test_a_duration_is_what_the_clock_says(play):
    """To the microsecond, whatever the resolution of the event loop's time."""

    async def scene(stage):
        ticks = count(step=0.000123)
        worker = Worker(stage.coordinator, clock=lambda: next(ticks))

        @worker.handler("work")
        async def work(job):
            """Nothing."""

        stage.coordinator.add("work")
        serving = asyncio.create_task(worker.serve())
        await stage.coordinator.until(lambda: stage.said("job_completed"))
        await worker.stop()
        await serving
        assert [line["duration"] for line in stage.said("job_completed")] == [0.000123]

    play(scene)
