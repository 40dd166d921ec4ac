"""The settler: at once when it is idle, together when it is busy, and nothing is lost on the way."""

from __future__ import annotations

import asyncio

from eventjobs import RetryIn
from eventjobs.client import InvalidValue, Problem, TooLarge


def test_a_lone_outcome_is_sent_at_once(play):
    """Nothing waits for company."""

    async def scene(stage):
        ended = []

        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(1)
            ended.append(asyncio.get_running_loop().time())

        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: row.state == "succeeded")
        assert asyncio.get_running_loop().time() == ended[0]

    play(scene)


def test_outcomes_gather_while_a_request_is_on_its_way(play):
    """What comes meanwhile goes together with the next request; failures do not wait for completions."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(job.payload)

        @stage.worker.handler("break")
        async def fail(job):
            raise ValueError("broken")

        rows = [stage.coordinator.add("work", seconds) for seconds in range(1, 11)]
        gate = stage.coordinator.gate("complete")
        stage.start()
        await asyncio.sleep(20)
        broken = stage.coordinator.add("break")
        await stage.coordinator.until(lambda: broken.error is not None)
        gate.set()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        assert stage.coordinator.batches["complete"] == [1, 9]

    play(scene, grace_seconds=0)


def test_large_results_are_sent_in_several_requests(play):
    """A request stays under the size that a coordinator takes."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            return "x" * (1_000_000 - 2)

        rows = [stage.coordinator.add("work") for _ in range(20)]
        stage.start()
        await stage.coordinator.until(lambda: all(row.state == "succeeded" for row in rows))
        assert sum(stage.coordinator.batches["complete"]) == 20
        assert max(stage.coordinator.batches["complete"]) == 8

    play(scene)


def test_a_lost_answer_is_asked_for_again(play):
    """The same outcomes are sent until they are acknowledged, and count once."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            return job.id

        rows = [stage.coordinator.add("work") for _ in range(3)]
        stage.coordinator.lose["complete"] = 2
        stage.start()
        await stage.coordinator.until(lambda: len(stage.said("job_completed")) == 3)
        assert [row.log for row in rows] == [["leased", "completed"]] * 3
        assert not stage.said("outcome_refused")

    play(scene)


def test_one_bad_result_does_not_hold_up_the_others(play):
    """A batch that is refused whole is halved until the culprit stands alone; its job fails for good, and says why."""

    async def scene(stage):
        def refuse(completions):
            bad = any(bytes(each.result) == b"666" for each in completions)
            return TooLarge(Problem(code="too_large", status=413, detail="at most 1 MiB")) if bad else None

        @stage.worker.handler("work")
        async def work(job):
            return job.payload

        rows = [stage.coordinator.add("work", value) for value in (1, 2, 666, 4, 5)]
        stage.coordinator.refuse["complete"] = refuse
        stage.start()
        await stage.coordinator.until(lambda: all(row.state in ("succeeded", "dead") for row in rows))
        assert [row.state for row in rows] == ["succeeded", "succeeded", "dead", "succeeded", "succeeded"]
        assert rows[2].error.error == {"type": "ResultRefused", "message": "too_large: at most 1 MiB"}
        assert not rows[2].error.retry

    play(scene)


def test_a_failure_that_is_refused_is_told_and_let_go(play, not_found):
    """There is nothing left to send; the lease will run out."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            raise ValueError("no")

        stage.coordinator.refuse["fail"] = lambda failures: not_found
        row = stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: stage.said("outcome_invalid"))
        del stage.coordinator.refuse["fail"]
        await stage.coordinator.until(lambda: row.state == "failed")
        assert row.log == ["leased", "expired", "leased", "failed"]

    play(scene, lease_seconds=5, grace_seconds=0)


def test_an_outcome_that_cannot_be_sent_ends_no_worker(play):
    """It is told and let go; those beside it in the batch are settled, and the worker goes on."""

    class Soon(RetryIn):
        """A delay that was put in after the bounds were looked at."""

        def __init__(self) -> None:
            super().__init__(1)
            self.seconds = {1}

    def write(failures):
        try:
            [each.text() for each in failures]
        except InvalidValue as error:  # as the client says it, before anything is sent
            return error
        return None

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            if job.payload == "bad" and job.attempt == 1:
                raise Soon
            raise ValueError("no")

        stage.coordinator.refuse["fail"] = write
        rows = [stage.coordinator.add("work", payload) for payload in ("good", "bad", "good")]
        gate = stage.coordinator.gate("fail")
        stage.start()
        await asyncio.sleep(1)
        gate.set()
        await stage.coordinator.until(lambda: all(row.state == "failed" for row in rows))
        assert rows[1].log == ["leased", "expired", "leased", "failed"]
        (line,) = stage.said("outcome_invalid")
        assert (line["job_id"], line["code"]) == (rows[1].id, "invalid_value")
        assert "retry_in_seconds" in line["reason"]
        assert not stage.serving.done()

    play(scene, lease_seconds=5, grace_seconds=0)


def test_a_job_that_is_gone_is_let_go(play):
    """An outcome for a job the coordinator does not know is refused like a stale one."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            del stage.coordinator.rows[job.id]

        stage.coordinator.add("work")
        stage.start()
        await stage.coordinator.until(lambda: stage.said("outcome_refused"))
        assert stage.said("outcome_refused")[0]["code"] == "job_not_found"

    play(scene)


def test_lines_say_what_happened_to_whom(play):
    """A line of the log names job, kind, attempt, token, worker, outcome and duration."""

    async def scene(stage):
        @stage.worker.handler("work")
        async def work(job):
            await asyncio.sleep(2)

        @stage.worker.handler("break")
        async def fail(job):
            raise LookupError("m" * 1_000)

        stage.coordinator.add("work", job_id="a")
        stage.coordinator.add("break", job_id="b")
        stage.start()
        await stage.coordinator.until(lambda: stage.said("job_completed"))
        (line,) = stage.said("job_completed")
        assert line == {
            "event": "job_completed",
            "log_level": "info",
            "worker": "w",
            "job_id": "a",
            "kind": "work",
            "queue": "default",
            "attempt": 1,
            "token": 1,
            "outcome": "succeeded",
            "duration": 2.0,
        }
        failed = stage.said("job_failed")[0]
        assert (failed["error"], failed["outcome"], len(failed["reason"])) == ("LookupError", "failed", 300)

    play(scene, grace_seconds=0)
