"""Time travel: a job and the statistics at points of the past are what was answered then."""

from __future__ import annotations

import asyncio
import random

import pytest

from eventjobs.api.wire_time import time_text
from eventjobs.coordinator.rescuer import GRACE_AFTER_OUTAGE
from eventjobs.domain.limits import NO_KIND
from eventjobs.projections import stats_past
from eventjobs.testing import builders as b

ABSENT = "01890a5d-ac96-774b-bcce-b302099a8057"


async def story(api, steps: int = 40) -> list[dict]:
    """Jobs to which everything happens; after each request, the position, the time, the statistics and all jobs."""
    chance, ids, seen = random.Random(7), [], []
    for _ in range(steps):
        api.clock.pass_seconds(chance.choice([0.5, 3, 40]))
        if len(ids) < 3 or chance.random() < 0.2:
            ids.append((await api.enqueue(queue=f"q{len(ids) % 2}", payload=len(ids), max_attempts=2))["id"])
        job = (await api.call("GET", f"/jobs/{chance.choice(ids)}")).json
        word = f"/jobs/{job['id']}"
        if job["state"] == "running":
            verb = chance.choice(["renew", "complete", "fail", "release"])
            body = {"token": job["lease_token"]} | ({"error": "no", "retry_in_seconds": 2} if verb == "fail" else {})
            await api.call("POST", f"{word}/{verb}", body)
        elif job["state"] == "dead":
            await api.call("POST", f"{word}/requeue", {})
        else:
            await api.lease()
        jobs = {job_id: (await api.call("GET", f"/jobs/{job_id}")).json for job_id in ids}
        stats = (await api.call("GET", "/stats")).json
        seen.append({"at": stats["head"]["size"], "time": api.clock.now(), "stats": stats, "jobs": jobs})
    return seen


@pytest.mark.parametrize("every", [5, 16_384])
async def test_the_past_is_what_was_answered_then(api, monkeypatch, every):
    """By position and by time, with snapshots and without: the same job, the same statistics, the same root."""
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", every)
    for then in await story(api):
        for at in (then["at"], time_text(then["time"])):
            answer = await api.call("GET", f"/stats?at={at}")
            assert (answer.status, answer.json) == (200, then["stats"])
            for job_id, job in then["jobs"].items():
                answer = await api.call("GET", f"/jobs/{job_id}?at={at}")
                assert (answer.status, answer.json) == (200, job)


async def test_a_job_was_not_there_before_it_came(api):
    """Before its first record it is a job that is not found, as is one that never was."""
    await api.enqueue()
    job = await api.enqueue()
    (await api.call("GET", f"/jobs/{job['id']}?at=1")).refusal(404, "job_not_found")
    (await api.call("GET", f"/jobs/{ABSENT}?at=1")).refusal(404, "job_not_found")
    (await api.call("GET", "/jobs/nonsense?at=1")).refusal(404, "job_not_found")
    assert (await api.call("GET", f"/jobs/{job['id']}?at=2")).json == job


async def test_a_retired_job_is_not_there(api):
    """From its retirement on it is in no number; before it, it is; by its id it is not found any more."""
    job = await api.enqueue()
    await api.call("POST", f"/jobs/{job['id']}/cancel", {})
    (done,) = await api.coordinator.execute([b.retire(job["id"], now=api.clock.now())])
    assert done.retired
    for at, canceled in ((2, 1), (3, 0)):
        assert (await api.call("GET", f"/stats?at={at}")).json["jobs"]["canceled"] == canceled
        (await api.call("GET", f"/jobs/{job['id']}?at={at}")).refusal(404, "job_not_found")


async def test_points_that_there_are_not(api):
    """Beyond the end, before the beginning, in the future, of an empty log, or no point at all: refused by name."""
    assert "is empty" in (await api.call("GET", "/stats?at=1")).faults()["at"]
    job = await api.enqueue()
    for path in ("/stats", f"/jobs/{job['id']}"):
        for at, reason in (
            ("2", "must be a position from 1 to 1"),
            ("0", "must be an integer from 1"),
            ("2031-01-01T00:00:00Z", "must not be later than now"),
            ("1999-01-01T00:00:00Z", "must not be earlier than"),
            ("yesterday", "must be a position of the log, or a time"),
            ("2026-02-30T00:00:00Z", "in no calendar"),
            ("2026-11-30T12:00:00", "names its offset"),
        ):
            faults = (await api.call("GET", f"{path}?at={at}")).faults()
            assert list(faults) == ["at"] and reason in faults["at"]
        (await api.call("GET", f"{path}?at=1&at=1")).faults()


async def test_a_long_fold_gives_way(api, turns):
    """Between two looks at the store, other requests get their turn."""
    jobs = [{"kind": "k"} for _ in range(500)]
    await api.call("POST", "/jobs/batch", {"jobs": jobs})
    turns.clear()
    assert (await api.call("GET", "/stats?at=500")).json["jobs"]["queued"] == 500
    assert turns.count("read") >= 4 and "readread" not in "".join(turns)


async def reason(api, job: dict) -> dict:
    answer = await api.call("GET", f"/jobs/{job['id']}/why")
    assert answer.status == 200, answer
    return answer.json


async def test_why_a_job_is_not_running(api):
    """Each reason in its turn, with what is known of it."""
    later = await api.enqueue(delay_seconds=100)
    job = await api.enqueue(queue="q", max_attempts=2)
    assert (await reason(api, later))["reason"] == "scheduled"
    found = await reason(api, job)
    assert (found["reason"], found["asked"]["for_this"], found["asked"]["requests"]) == ("nobody_asks", False, 0)
    await api.lease(queues=["other"])
    found = await reason(api, job)
    assert (found["reason"], found["asked"]["for_this"]) == ("nobody_asks", False)
    assert [(each["worker"], each["queues"], each["kinds"]) for each in found["asked"]["latest"]] == [
        ("w", ["other"], None)
    ]
    await api.lease(queues=["q"])
    found = await reason(api, job)
    assert (found["reason"], found["lease_owner"], found["lease_token"], found["attempts"]) == ("running", "w", 1, 1)
    await api.call("POST", f"/jobs/{job['id']}/fail", {"token": 1, "error": "no", "retry_in_seconds": 9})
    found = await reason(api, job)
    assert (found["reason"], found["error"]) == ("waiting_for_retry", {"type": "Error", "message": "no"})
    api.clock.pass_seconds(10)
    found = await reason(api, job)
    assert (found["reason"], found["ahead"], found["asked"]["for_this"]) == (
        "next", {"jobs": 0, "more": False, "lanes": []}, True,
    )  # fmt: skip
    await api.enqueue(queue="q", kind="b", priority=9)
    await api.enqueue(queue="q", priority=9)
    await api.enqueue(queue="apart", priority=9)
    found = await reason(api, job)
    assert (found["reason"], found["ahead"]["jobs"]) == ("behind_others", 2)
    assert [lane["kind"] for lane in found["ahead"]["lanes"]] == ["b", "k"]
    api.clock.pass_seconds(6)
    found = await reason(api, job)
    assert (found["reason"], found["asked"]["for_this"], found["ahead"]) == ("nobody_asks", True, None)
    api.clock.pass_seconds(301)
    assert (await reason(api, job))["asked"]["for_this"] is False
    await api.lease(queues=["q"], max_jobs=3)
    await api.call("POST", f"/jobs/{job['id']}/fail", {"token": 2, "error": "no"})
    found = await reason(api, job)
    assert (found["reason"], found["death_cause"]) == ("dead", "attempts_exhausted")
    assert (found["ended"]["type"], found["ended"]["actor"]) == ("job_died", {"type": "worker", "id": "w"})
    await api.call("POST", f"/jobs/{later['id']}/cancel", {"reason": "enough"})
    found = await reason(api, later)
    assert (found["reason"], found["ended"]["data"], found["erasures"]) == ("canceled", {"reason": "enough"}, [])


async def test_workers_that_are_full_ask_again(api):
    """Who was given as many jobs as it asked for is full while it holds them, and not for longer."""
    held, job = await api.enqueue(), await api.enqueue()
    await api.lease(lease_seconds=100)
    api.clock.pass_seconds(60)
    found = await reason(api, job)
    assert (found["reason"], found["ahead"]["jobs"]) == ("workers_full", 0)
    assert [(each["worker"], each["full"]) for each in found["asked"]["latest"]] == [("w", True)]
    await api.call("POST", f"/jobs/{held['id']}/renew", {"token": 1})
    api.clock.pass_seconds(60)
    assert (await reason(api, job))["reason"] == "workers_full"
    assert (await reason(api, held))["leased_at"] == time_text(api.clock.now() - b.seconds(120))
    await api.lease(kinds=["other"], wait_seconds=0)
    assert (await reason(api, job))["reason"] == "nobody_asks"
    await api.lease(max_jobs=2)
    third = await api.enqueue()
    assert (await reason(api, third))["reason"] == "next"
    await api.lease()
    assert (await reason(api, await api.enqueue()))["reason"] == "workers_full"
    await api.call("POST", f"/jobs/{held['id']}/complete", {"token": 1})
    assert (await reason(api, await api.enqueue()))["reason"] == "behind_others"


async def test_a_worker_that_stops_asks_no_more(api):
    """It repeats the request that waits, for the kind that there is not; nobody is said to ask for that."""
    job = await api.enqueue()
    waiting = asyncio.create_task(api.lease(kinds=["other"], wait_seconds=50, request_id="r"))
    while not (await reason(api, job))["asked"]["requests"]:
        assert not waiting.done()
    assert await api.lease(kinds=[NO_KIND], request_id="r") == []
    assert await waiting == []
    found = await reason(api, job)
    assert (found["reason"], found["asked"]["requests"]) == ("nobody_asks", 0)


async def test_a_lease_that_ran_out_is_not_said_to_run(api):
    """From its expiry on, while the log does not have it; and until when it is let be, only after an outage."""
    job = await api.enqueue()
    await api.lease(lease_seconds=3)
    api.clock.pass_seconds(3 - 0.000001)
    assert ((await reason(api, job))["reason"], (await reason(api, job))["spared_until"]) == ("running", None)
    api.clock.pass_seconds(0.000001)
    found = await reason(api, job)
    assert (found["reason"], found["spared_until"], found["lease_owner"]) == ("expiring", None, "w")
    api.coordinator._rescuer.spare()
    until = time_text(api.clock.now() + GRACE_AFTER_OUTAGE)
    assert ((await reason(api, job))["reason"], (await reason(api, job))["spared_until"]) == ("expiring", until)
    api.clock.pass_seconds(6)
    assert (await reason(api, job))["spared_until"] is None


async def test_who_ended_a_job_and_who_erased_what(api):
    """Its last end, whatever came after it; of a job that goes on, nothing."""
    job = await api.enqueue(payload=None, max_attempts=1)
    assert ((await reason(api, job))["ended"], (await reason(api, job))["erasures"]) == (None, [])
    for token in (1, 2):
        await api.lease()
        await api.call("POST", f"/jobs/{job['id']}/fail", {"token": token, "error": "no"})
        if token == 1:
            await api.call("POST", f"/jobs/{job['id']}/erase", {"reason": "first"})
            assert [each["data"]["reason"] for each in (await reason(api, job))["erasures"]] == ["first"]
            await api.call("POST", f"/jobs/{job['id']}/requeue", {})
            assert (await reason(api, job))["ended"] is None
    await api.call("POST", f"/jobs/{job['id']}/erase", {"reason": "second"})
    found = await reason(api, job)
    assert (found["ended"]["type"], found["ended"]["data"]["token"]) == ("job_died", 2)
    assert [each["data"]["reason"] for each in found["erasures"]] == ["second"]


async def test_no_more_than_ten_thousand_are_counted(api, monkeypatch):
    """Of more, it is said that there are more."""
    monkeypatch.setattr("eventjobs.api.routes_why.AHEAD_MAX", 3)
    for _ in range(5):
        job = await api.enqueue()
    await api.lease()
    assert (await reason(api, job))["ahead"]["more"] is False
    for priority in (1, 2):
        await api.enqueue(priority=priority)
    found = (await reason(api, job))["ahead"]
    assert found == {"jobs": 3, "more": True, "lanes": [{"queue": "default", "kind": "k", "jobs": 3}]}


async def test_why_of_no_job(api):
    """As everywhere: 404; and no parameter is known."""
    (await api.call("GET", f"/jobs/{ABSENT}/why")).refusal(404, "job_not_found")
    (await api.call("GET", f"/jobs/{ABSENT}/why?at=1")).faults()


async def test_what_was_erased_since_is_not_in_the_past(api):
    """A job is shown as it stood, but for the contents that it lost later: null, and named. What it had left is shown,
    and a job that is requeued keeps what it lost in mind for its past."""
    path = "/jobs/" + (await api.enqueue(payload=None, max_attempts=1))["id"]
    for error in ("first", "second"):
        (job,) = await api.lease()
        await api.call("POST", f"{path}/fail", {"token": job["lease_token"], "error": error})
        if error == "first":
            await api.call("POST", f"{path}/erase", {"reason": "asked for"})
            await api.call("POST", f"{path}/requeue", {})
    died, again = [(await api.call("GET", f"{path}?at={at}")).json for at in (3, 7)]
    assert (died["state"], died["error"], died["erased"]) == ("dead", None, ["error"])
    assert again["error"]["message"] == "second" and "erased" not in again
    paid = "/jobs/" + (await api.enqueue(payload={"secret": 1}))["id"]
    await api.call("POST", f"{paid}/cancel", {})
    await api.call("POST", f"{paid}/erase", {})
    before = await api.call("GET", f"{paid}?at=8")
    assert (before.status, before.json["state"]) == (200, "queued")
    assert (before.json["payload"], before.json["erased"]) == (None, ["payload"])
