"""POST /dead/requeue: dead jobs come back in bulk, oldest first, each once."""

from __future__ import annotations

from uuid import uuid4

import pytest

from eventjobs.api import routes_dead


@pytest.fixture
async def dead(api) -> list[str]:
    """Seven dead jobs, oldest first: kinds a and b in turn, the last two in the queue `other`; and two that live."""
    jobs = [{"kind": "ab"[n % 2], "queue": "other" if n > 4 else "default", "max_attempts": 1} for n in range(7)]
    answer = await api.call("POST", "/jobs/batch", {"jobs": jobs})
    ids = [job["id"] for job in answer.json["jobs"]]
    await api.lease(max_jobs=7)
    await api.call("POST", "/fail", {"jobs": [{"id": each, "token": 1, "error": "e"} for each in reversed(ids)]})
    await api.enqueue(kind="a")
    await api.enqueue(kind="b", queue="other")
    return ids


async def requeue(api, body: object = None) -> int:
    answer = await api.call("POST", "/dead/requeue", body)
    assert answer.status == 200, answer
    return answer.json["requeued"]


async def still_dead(api) -> list[str]:
    """Their ids, oldest first."""
    return [job["id"] for job in (await api.call("GET", "/dead")).json["jobs"]][::-1]


@pytest.mark.parametrize("body", [None, {}, {"ids": None, "kind": None, "queue": None, "limit": None}])
@pytest.mark.parametrize("page", [2, 7, 1000])
async def test_nothing_asked_means_all(api, dead, monkeypatch, body, page):
    """In as many commits as it takes; once they are back there is nothing more to do."""
    monkeypatch.setattr(routes_dead, "BATCH_JOBS_MAX", page)
    assert await requeue(api, body) == 7
    assert await still_dead(api) == []
    assert await requeue(api, body) == 0
    events = (await api.call("GET", f"/jobs/{dead[0]}/events")).json["events"]
    assert [event["type"] for event in events] == ["job_enqueued", "job_leased", "job_died", "job_requeued"]
    assert events[-1]["actor"] == {"type": "operator", "id": "127.0.0.1"}


@pytest.mark.parametrize("page", [1, 1000])
async def test_filters_combine(api, dead, monkeypatch, page):
    """Kind, queue, ids and a limit, oldest first."""
    monkeypatch.setattr(routes_dead, "BATCH_JOBS_MAX", page)
    assert await requeue(api, {"kind": "a", "queue": "other"}) == 1
    assert await requeue(api, {"limit": 2}) == 2
    assert await still_dead(api) == dead[2:6]
    assert await requeue(api, {"kind": "b"}) == 2
    assert await still_dead(api) == [dead[2], dead[4]]


async def test_ids_that_are_not_dead_are_passed_over(api, dead):
    """Living, unknown and repeated ones do not count; letter case does not matter; a limit takes the oldest."""
    living = (await api.enqueue())["id"]
    ids = [dead[6], living, str(uuid4()), dead[1].upper(), dead[1], dead[3]]
    assert await requeue(api, {"ids": ids, "limit": 2}) == 2
    assert await still_dead(api) == [dead[0], dead[2], dead[4], dead[5], dead[6]]
    assert await requeue(api, {"ids": ids, "kind": "b"}) == 0
    assert await requeue(api, {"ids": ids}) == 1
    assert await requeue(api, {"ids": []}) == 0


async def test_a_job_that_dies_again_meanwhile_is_not_met_twice(api, dead, monkeypatch):
    """The walk goes past each place once, whatever happens behind it, and ends where the log ended when it began."""
    monkeypatch.setattr(routes_dead, "BATCH_JOBS_MAX", 1)
    execute, rounds = api.coordinator.execute, []

    async def execute_and_kill_again(commands):
        replies = await execute(commands)
        rounds.append(commands[0].job_id)
        assert len(rounds) <= 9, "it goes round in circles"
        await api.enqueue(kind="new", max_attempts=1)
        for job in await api.lease(max_jobs=1000):
            await execute_fail(job["id"], job["lease_token"])
        return replies

    async def execute_fail(job_id, token):
        body = {"jobs": [{"id": job_id, "token": token, "error": "again", "retry": False}]}
        api.coordinator.execute = execute
        await api.call("POST", "/fail", body)
        api.coordinator.execute = execute_and_kill_again

    monkeypatch.setattr(api.coordinator, "execute", execute_and_kill_again)
    assert await requeue(api, {}) == 9  # the two that lived at first die on the way, before it gets to them
    assert rounds[:7] == dead


@pytest.mark.parametrize(("full_at", "status", "left"), [(0, 507, 7), (2, 200, 3)])
async def test_a_store_that_fills_up_on_the_way_does_not_hide_what_was_requeued(
    api, dead, full_after, monkeypatch, full_at, status, left
):
    """It is refused only when nothing was requeued; else the number so far is the answer, and asking again helps."""
    monkeypatch.setattr(routes_dead, "BATCH_JOBS_MAX", 2)
    make_room = full_after(full_at)
    answer = await api.call("POST", "/dead/requeue")
    assert answer.status == status
    assert answer.json.get("requeued", 0) == 7 - left
    assert await still_dead(api) == dead[7 - left :]
    make_room()
    assert await requeue(api) == left


async def test_every_fault_is_told(api):
    """What is no UUID is a fault of the list, not an id to pass over."""
    body = {"ids": ["x", 5, str(uuid4())], "kind": "", "queue": 1, "limit": 0, "more": 1}
    answer = await api.call("POST", "/dead/requeue", body)
    assert set(answer.faults()) == {"ids[0]", "ids[1]", "kind", "queue", "limit", "more"}
    assert set((await api.call("POST", "/dead/requeue", {"ids": [str(uuid4())] * 1001})).faults()) == {"ids"}
