"""Leases and what workers and operators say about jobs, one by one and in bulk."""

from __future__ import annotations

import asyncio
from uuid import uuid4

JOB_FIELDS = {
    "id", "kind", "queue", "priority", "payload", "state", "attempts", "max_attempts", "retry_policy", "run_at",
    "lease_owner", "lease_expires_at", "lease_token", "result", "error", "idempotency_key", "created_at", "updated_at",
    "finished_at",
}  # fmt: skip


async def actors(api, job: str) -> list[tuple[str, str]]:
    """Type and id of who caused each event of the job."""
    events = (await api.call("GET", f"/jobs/{job}/events")).json["events"]
    return [(event["actor"]["type"], event["actor"]["id"]) for event in events]


async def test_a_lease_shows_whole_jobs(api):
    """Every field, the error of the last attempt among them."""
    job = (await api.enqueue(payload={"x": 1}, retry_policy={"type": "constant", "base": 0}))["id"]
    await api.lease()
    await api.call("POST", f"/jobs/{job}/fail", {"token": 1, "error": "no"})
    (leased,) = await api.lease(max_jobs=10)
    assert set(leased) == JOB_FIELDS
    assert (leased["payload"], leased["attempts"], leased["lease_token"]) == ({"x": 1}, 2, 2)
    assert leased["error"] == {"type": "Error", "message": "no"}
    assert leased == (await api.call("GET", f"/jobs/{job}")).json


async def test_a_lease_request_is_repeated_by_its_id(api):
    """The same worker and request get the same grants."""
    for _ in range(3):
        await api.enqueue()
    first = await api.lease(max_jobs=2, request_id="r")
    assert len(first) == 2
    assert await api.lease(max_jobs=2, request_id="r") == first
    assert len(await api.lease(max_jobs=2, request_id="r", worker="other")) == 1


async def test_one_by_one(api):
    """renew, release, complete: each answers with the job, and the lease's owner is the actor."""
    job = (await api.enqueue())["id"]
    await api.lease(lease_seconds=10)
    renewed = await api.call("POST", f"/jobs/{job}/renew", {"token": 1, "lease_seconds": 60})
    assert (renewed.status, renewed.json["lease_expires_at"]) == (200, "2026-01-01T00:01:00.000000Z")
    released = (await api.call("POST", f"/jobs/{job}/release", {"token": 1})).json
    assert (released["state"], released["attempts"], released["lease_token"]) == ("queued", 0, 1)
    await api.lease()
    done = (await api.call("POST", f"/jobs/{job}/complete", {"token": 2, "result": [1]})).json
    assert (done["state"], done["result"]) == ("succeeded", [1])
    assert await actors(api, job) == [("producer", "127.0.0.1")] + [("worker", "w")] * 5


async def test_operators_need_no_body(api):
    """cancel and requeue: absent, {} or a reason; the header says who."""
    jobs = [(await api.enqueue())["id"] for _ in range(3)]
    assert (await api.call("POST", f"/jobs/{jobs[0]}/cancel")).json["state"] == "canceled"
    await api.call("POST", f"/jobs/{jobs[1]}/cancel", {"reason": "why\nnot"}, headers={"Eventjobs-Actor": "ada"})
    events = (await api.call("GET", f"/jobs/{jobs[1]}/events")).json["events"]
    assert events[1]["data"] == {"reason": "why\nnot"}
    assert events[1]["actor"] == {"type": "operator", "id": "ada"}
    await api.lease()
    await api.call("POST", f"/jobs/{jobs[2]}/fail", {"token": 1, "error": "e", "retry": False})
    assert (await api.call("POST", f"/jobs/{jobs[2]}/requeue", raw=b"")).json["state"] == "queued"
    assert (await actors(api, jobs[2]))[-1] == ("operator", "127.0.0.1")


async def test_bulk_outcomes_are_told_in_order(api):
    """Each item alone: done, stale, unknown, the id of no job; the id comes back as it was sent."""
    jobs = [(await api.enqueue())["id"] for _ in range(2)]
    await api.lease(max_jobs=2)
    strange = str(uuid4())
    items = [
        {"id": jobs[0].upper(), "token": 1, "result": {"ok": True}},
        {"id": "nobody", "token": 1},
        {"id": jobs[1], "token": 2**80},
        {"id": strange, "token": 1},
        {"id": jobs[0], "token": 1},
    ]
    results = (await api.call("POST", "/complete", {"jobs": items})).json["results"]
    assert [result["id"] for result in results] == [item["id"] for item in items]
    assert [result["ok"] for result in results] == [True, False, False, False, True]
    assert results[0] == {
        "id": jobs[0].upper(),
        "ok": True,
        "state": "succeeded",
        "lease_token": 1,
        "lease_expires_at": None,
        "run_at": "2026-01-01T00:00:00.000000Z",
    }
    problems = [results[place]["problem"] for place in (1, 2, 3)]
    assert [(problem["status"], problem["code"]) for problem in problems] == [
        (404, "job_not_found"), (409, "stale_token"), (404, "job_not_found"),
    ]  # fmt: skip
    assert (await api.call("GET", f"/jobs/{jobs[0]}")).json["result"] == {"ok": True}


async def test_bulk_renewals_and_failures(api):
    """A renewal shows the new expiry, a failure the next attempt's time."""
    jobs = [(await api.enqueue(retry_policy={"type": "constant", "base": 5}))["id"] for _ in range(2)]
    await api.lease(max_jobs=2, lease_seconds=10)
    api.clock.pass_seconds(1)
    renewed = await api.call("POST", "/renew", {"jobs": [{"id": jobs[0], "token": 1}]})
    assert renewed.json["results"][0]["lease_expires_at"] == "2026-01-01T00:00:11.000000Z"
    items = [
        {"id": jobs[0], "token": 1, "error": {"type": "T", "message": "m", "traceback": "b"}},
        {"id": jobs[1], "token": 1, "error": "m", "retry_in_seconds": 0.5},
    ]
    failed = (await api.call("POST", "/fail", {"jobs": items})).json["results"]
    assert [result["state"] for result in failed] == ["failed", "failed"]
    assert [result["run_at"] for result in failed] == ["2026-01-01T00:00:06.000000Z", "2026-01-01T00:00:01.500000Z"]
    assert (await api.call("GET", f"/jobs/{jobs[0]}")).json["error"] == items[0]["error"]


async def test_nothing_to_say_is_no_fault(api):
    """An empty list has no results."""
    for path in ("/renew", "/complete", "/fail"):
        assert (await api.call("POST", path, {"jobs": []})).json == {"results": []}


async def test_an_expired_lease_is_told_apart(api):
    """A renewal too late is lease_expired while nobody else has the job."""
    job = (await api.enqueue())["id"]
    await api.lease(lease_seconds=1)
    api.clock.pass_seconds(1)
    answer = await api.call("POST", f"/jobs/{job}/renew", {"token": 1})
    answer.refusal(409, "lease_expired")


async def test_a_waiting_lease_is_woken_by_a_job(api):
    """The long-poll ends as soon as there is something to do."""
    waiting = asyncio.ensure_future(api.lease(queues=["later"], wait_seconds=60))
    job = await api.enqueue(queue="later")
    assert [each["id"] for each in await asyncio.wait_for(waiting, 10)] == [job["id"]]


async def test_nothing_is_leased_for_a_worker_that_hung_up(api, lease_began):
    """A job that comes after the connection of a long-poll broke stays in the queue."""
    host, port = api.base.removeprefix("http://").split(":")
    body = b'{"worker":"gone","queues":["q"],"wait_seconds":60}'
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    await lease_began.wait()
    assert await api.lease(queues=["q"]) == []  # its first attempt was before this one, and found nothing
    writer.close()
    await writer.wait_closed()
    assert (await api.call("GET", "/healthz")).status == 200
    await api.enqueue(queue="q")
    assert [job["lease_owner"] for job in await api.lease(queues=["q"], wait_seconds=5)] == ["w"]
