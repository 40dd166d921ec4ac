"""POST /jobs/{id}/erase and POST /erase: the contents are gone, the history stays and says who did it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from eventjobs.api import routes_erase


async def test_an_operator_erases_a_finished_job(api):
    """Only a finished one; what is gone is shown as null and named, and the event carries the operator's name."""
    path = "/jobs/" + (await api.enqueue(payload={"secret": 1}))["id"]
    early = await api.call("POST", f"{path}/erase", {})
    assert early.status == 409 and early.json["code"] == "illegal_transition"
    await api.call("POST", f"{path}/cancel", {})
    for _ in range(2):
        done = await api.call("POST", f"{path}/erase", {"reason": "asked for"}, headers={"Eventjobs-Actor": "ada"})
        assert done.status == 200 and done.json["payload"] is None and done.json["erased"] == ["payload"]
    events = (await api.call("GET", f"{path}/events")).json["events"]
    assert [event["type"] for event in events] == ["job_enqueued", "job_canceled", "contents_erased"]
    assert events[-1]["actor"] == {"type": "operator", "id": "ada"} and events[-1]["data"]["reason"] == "asked for"


@pytest.fixture
async def finished(api) -> list[str]:
    """Six canceled jobs with payloads in the order of their ends, kinds a and b in turn, the last two in the queue
    `other`; then one that is canceled without a payload, and one that waits."""
    ids = []
    for n in range(6):
        job = await api.enqueue(kind="ab"[n % 2], queue="other" if n > 3 else "default", payload={"n": n})
        await api.call("POST", f"/jobs/{job['id']}/cancel", {})
        ids.append(job["id"])
        api.clock.pass_seconds(60)
    empty = await api.enqueue(kind="a", payload=None)
    await api.call("POST", f"/jobs/{empty['id']}/cancel", {})
    waiting = await api.enqueue(kind="a", payload=1)
    return [*ids, empty["id"], waiting["id"]]


async def erase(api, body: object) -> int:
    answer = await api.call("POST", "/erase", body)
    assert answer.status == 200, answer
    return answer.json["erased"]


async def erased(api, ids: list[str]) -> list[int]:
    """Which of the jobs were erased."""
    jobs = [(await api.call("GET", f"/jobs/{each}")).json for each in ids]
    return [number for number, job in enumerate(jobs) if "erased" in job]


@pytest.mark.parametrize("step", [1, 4, 50])
async def test_all_that_is_finished_is_erased_and_nothing_else(api, finished, monkeypatch, step):
    """In as many steps as it takes; a second time there is nothing more to do."""
    monkeypatch.setattr(routes_erase, "STEP_JOBS", step)
    assert await erase(api, {"older_than_seconds": 0, "reason": "asked for"}) == 6
    assert await erased(api, finished) == [0, 1, 2, 3, 4, 5]
    assert await erase(api, {"older_than_seconds": 0}) == 0
    event = (await api.call("GET", f"/jobs/{finished[5]}/events")).json["events"][-1]
    assert event["actor"] == {"type": "operator", "id": "127.0.0.1"} and event["data"]["reason"] == "asked for"


@pytest.mark.parametrize("step", [1, 50])
async def test_what_is_erased_is_chosen(api, finished, monkeypatch, step):
    """By kind, queue, state and age together; of a queue and kind the one that ended first comes first."""
    monkeypatch.setattr(routes_erase, "STEP_JOBS", step)
    assert await erase(api, {"state": "dead"}) == 0
    assert await erase(api, {"kind": "a", "queue": "other"}) == 1 and await erased(api, finished) == [4]
    assert await erase(api, {"older_than_seconds": 350}) == 1 and await erased(api, finished) == [0, 4]
    assert await erase(api, {"kind": "b", "limit": 1}) == 1 and await erased(api, finished) == [0, 1, 4]
    assert await erase(api, {"state": "canceled"}) == 3


async def test_named_jobs_are_erased_if_they_can_be(api, finished):
    """Others, and those that the rest of the choice does not fit, are passed over."""
    ids = [*finished[::-1], str(uuid4())]
    assert await erase(api, {"ids": ids, "kind": "b", "older_than_seconds": 100}) == 2
    assert await erased(api, finished) == [1, 3]
    assert await erase(api, {"ids": ids, "limit": 1}) == 1 and await erased(api, finished) == [0, 1, 3]
    assert await erase(api, {"ids": []}) == 0
    assert await erase(api, {"ids": ids}) == 3


@pytest.mark.parametrize("body", [{}, {"reason": "r", "limit": 3}, {"kind": None}])
async def test_everything_is_not_erased_by_leaving_out(api, finished, body):
    """A request that chooses nothing is refused."""
    assert set((await api.call("POST", "/erase", body)).faults()) == {""}
    assert await erased(api, finished) == []


async def test_each_fault_of_a_bulk_erasure_is_named(api):
    """Wrong members, unknown ones, and a state in which nothing can be erased."""
    body = {"kind": "", "state": "running", "older_than_seconds": -1, "limit": 1001, "reason": 1, "more": 1}
    answer = await api.call("POST", "/erase", {"ids": ["x"], **body})
    assert set(answer.faults()) == {"ids[0]", *body}


@pytest.mark.parametrize(("full_at", "status", "number"), [(0, 507, 0), (2, 200, 4)])
async def test_a_store_that_fills_up_on_the_way_does_not_hide_what_was_erased(
    api, finished, full_after, monkeypatch, full_at, status, number
):
    """It is refused only when nothing was erased; else the number so far is the answer, and asking again helps."""
    monkeypatch.setattr(routes_erase, "STEP_JOBS", 2)
    make_room = full_after(full_at)
    answer = await api.call("POST", "/erase", {"state": "canceled"})
    assert answer.status == status
    assert answer.json.get("erased", 0) == number == len(await erased(api, finished))
    make_room()
    assert await erase(api, {"state": "canceled"}) == 6 - number
