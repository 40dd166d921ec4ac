"""POST /jobs and /jobs/batch: jobs go in once, whole, and come back as they were sent."""

from __future__ import annotations

import json

import pytest

from eventjobs.api import routes_enqueue

TEXTS = (
    b"12345678901234567890123",
    b"1.0",
    b"1e400",
    b"-0",
    b'{"b":1,"a":[{ }],"b":2}',
    b'"\\u0000 \\ud83d\\ude00"',
    '"é"'.encode(),
    b"false",
)


async def test_an_enqueued_job_is_answered_as_it_is_stored(api):
    """201 with the job, the same that a look at it gives."""
    job = await api.enqueue(payload={"a": [1, 2.5, None]}, delay_seconds=60, idempotency_key="one")
    assert job["run_at"] == "2026-01-01T00:01:00.000000Z"
    assert (await api.call("GET", f"/jobs/{job['id']}")).json == job
    assert (await api.call("GET", f"/jobs/{job['id'].upper()}")).json == job


@pytest.mark.parametrize("text", TEXTS)
async def test_values_come_back_byte_for_byte(api, text):
    """Payload and result, on every road that shows them."""
    answers = [await api.call("POST", "/jobs", raw=b'{"kind":"k","payload":%s}' % text)]
    job = answers[0].json["id"] if b"1e400" not in text else answers[0].body[7:43].decode()
    answers.append(await api.call("POST", "/lease", {"worker": "w"}))
    answers.append(await api.call("POST", f"/jobs/{job}/complete", raw=b'{"token":1,"result": %s }' % text))
    answers.append(await api.call("GET", f"/jobs/{job}"))
    answers.append(await api.call("GET", "/jobs"))
    assert all(b'"payload":%s,' % text in answer.body for answer in answers)
    assert all(b'"result":%s,' % text in answer.body for answer in answers[2:])


async def test_the_same_key_and_request_give_the_first_job(api):
    """200 with a header that says so; what is left out and what is given as default are the same request."""
    first = await api.call("POST", "/jobs", raw=b'{"kind":"k","payload":{"a":1},"idempotency_key":"x"}')
    again = await api.call(
        "POST", "/jobs", raw=b'{"job_type":"k","priority":0,"payload": {"a" : 1}}', headers={"Idempotency-Key": "x"}
    )
    assert (first.status, again.status) == (201, 200)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json == first.json
    assert await api.log_size() == 1


async def test_a_replay_shows_the_job_as_it_stands(api):
    """With its result, once it has one."""
    job = await api.enqueue(idempotency_key="x", payload="p")
    await api.lease()
    await api.call("POST", f"/jobs/{job['id']}/complete", {"token": 1, "result": "r"})
    again = await api.call("POST", "/jobs", {"kind": "k", "payload": "p", "idempotency_key": "x"})
    assert (again.status, again.json["state"], again.json["result"]) == (200, "succeeded", "r")


async def test_the_same_key_with_another_request_is_a_conflict(api):
    """409 with the job that holds the key."""
    first = await api.enqueue(idempotency_key="x", payload=1)
    answer = await api.call("POST", "/jobs", {"kind": "k", "payload": 1.0, "idempotency_key": "x"})
    assert answer.refusal(409, "idempotency_key_reused")["job"] == first


async def test_a_key_may_come_once_in_the_header(api):
    """Two headers, or one that differs from the field, are faults."""
    url = api.base + "/jobs"
    headers = [("Content-Type", "application/json"), ("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    async with api.session.post(url, data=b'{"kind":"k"}', headers=headers) as response:
        assert response.status == 422
    answer = await api.call("POST", "/jobs", {"kind": "k", "idempotency_key": "b"}, headers={"Idempotency-Key": "a"})
    assert set(answer.faults()) == {"idempotency_key"}


async def test_a_batch_goes_in_whole_and_in_order(api):
    """Known keys yield their jobs and do not count; the same key twice in one batch is one job."""
    held = await api.enqueue(payload="held", idempotency_key="held")
    jobs = [
        {"kind": "k", "payload": 0},
        {"kind": "k", "payload": "held", "idempotency_key": "held"},
        {"kind": "k", "payload": 2, "idempotency_key": "twice"},
        {"kind": "k", "payload": 2, "idempotency_key": "twice"},
    ]
    answer = await api.call("POST", "/jobs/batch", {"jobs": jobs})
    assert (answer.status, answer.json["created"]) == (201, 2)
    shown = answer.json["jobs"]
    assert [job["payload"] for job in shown] == [0, "held", 2, 2]
    assert shown[1] == held
    assert shown[2] == shown[3]
    assert shown == [(await api.call("GET", f"/jobs/{job['id']}")).json for job in shown]


async def test_an_empty_batch_is_done_at_once(api):
    """Nothing to do is no fault."""
    answer = await api.call("POST", "/jobs/batch", {"jobs": []})
    assert (answer.status, answer.json) == (201, {"jobs": [], "created": 0})


async def test_a_conflict_refuses_the_whole_batch(api):
    """409 names the item and shows the job, unless the two jobs in conflict were both in the batch."""
    first = await api.enqueue(idempotency_key="x", payload=1)
    size = await api.log_size()
    answer = await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}, {"kind": "k", "idempotency_key": "x"}]})
    problem = answer.refusal(409, "idempotency_key_reused")
    assert (problem["job"], problem["index"]) == (first, 1)
    twins = [{"kind": "k", "payload": n, "idempotency_key": "y"} for n in (1, 2)]
    problem = (await api.call("POST", "/jobs/batch", {"jobs": twins})).refusal(409, "idempotency_key_reused")
    assert "job" not in problem
    assert await api.log_size() == size


async def test_a_batch_has_no_key_of_its_own(api):
    """A header that could not do what its sender expects is refused."""
    answer = await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}]}, headers={"Idempotency-Key": "a"})
    assert set(answer.faults()) == {"Idempotency-Key"}


async def test_who_asked_is_in_the_log(api):
    """The header's name, or the address the request came from."""
    named = (await api.call("POST", "/jobs", {"kind": "k"}, headers={"Eventjobs-Actor": "shop 1"})).json["id"]
    plain = (await api.enqueue())["id"]
    actors = [(await api.call("GET", f"/jobs/{job}/events")).json["events"][0]["actor"] for job in (named, plain)]
    assert actors == [{"type": "producer", "id": "shop 1"}, {"type": "producer", "id": "127.0.0.1"}]


async def test_a_payload_that_is_too_large_is_refused_by_name(api):
    """413 names the place and the limit, in a batch too."""
    large = json.dumps({"jobs": [{"kind": "k"}, {"kind": "k", "payload": "x" * (1 << 20)}]}).encode()
    problem = (await api.call("POST", "/jobs/batch", raw=large)).refusal(413, "too_large")
    assert "jobs[1].payload" in problem["detail"]
    assert await api.log_size() == 0


async def test_a_repeated_batch_shows_no_more_than_an_answer_carries(api, monkeypatch):
    """Beyond that it is refused before a content is read, and tells the ids; in smaller batches the jobs are shown."""
    batch = {"jobs": [{"kind": "k", "idempotency_key": str(n)} for n in range(4)]}
    ids = [job["id"] for job in (await api.call("POST", "/jobs/batch", batch)).json["jobs"]]
    await api.lease(max_jobs=4)
    done = {"jobs": [{"id": job_id, "token": 1, "result": "r" * 98} for job_id in ids]}
    await api.call("POST", "/complete", done)
    monkeypatch.setattr(routes_enqueue, "ANSWER_BYTES_MAX", 400)
    assert (await api.call("POST", "/jobs/batch", batch)).json["created"] == 0
    monkeypatch.setattr(routes_enqueue, "ANSWER_BYTES_MAX", 399)
    monkeypatch.setattr(routes_enqueue, "stored_job", None)
    batch["jobs"].append({"kind": "k"})
    refused = (await api.call("POST", "/jobs/batch", batch)).refusal(413, "too_large")
    assert (refused["ids"][:4], refused["created"]) == (ids, 1)
    assert "fewer jobs in one batch" in refused["detail"]
    assert (await api.call("GET", f"/jobs/{refused['ids'][4]}")).json["state"] == "queued"
