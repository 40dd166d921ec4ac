"""The lists of jobs: filters, pages that neither skip nor repeat, and answers that stay within their size."""

from __future__ import annotations

import pytest

from eventjobs.api import routes_jobs


async def walk(api, path: str, between=None) -> list[str]:
    """The ids on all pages, following the cursors; `between` is called after each page."""
    ids, cursor = [], None
    while True:
        page = (await api.call("GET", path + (f"&cursor={cursor}" if cursor else ""))).json
        ids += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids
        assert page["jobs"]
        if between is not None:
            await between()


async def bury(api, **job: object) -> str:
    """A dead job's id."""
    buried = (await api.enqueue(**job))["id"]
    (leased,) = await api.lease(queues=[job.get("queue", "default")])
    assert leased["id"] == buried
    await api.call("POST", f"/jobs/{buried}/fail", {"token": 1, "error": "e", "retry": False})
    return buried


@pytest.mark.parametrize("limit", [1, 3, 7, 8, 1000])
async def test_pages_hold_every_job_once_newest_first(api, limit):
    """Jobs that arrive meanwhile are not on pages further down; the last page has no cursor."""
    ids = [(await api.enqueue(payload=n))["id"] for n in range(7)]
    assert await walk(api, f"/jobs?limit={limit}", between=api.enqueue) == ids[::-1]


async def test_a_page_is_a_hundred_jobs_unless_asked_otherwise(api):
    """And a full page before the end has a cursor."""
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 101})
    page = (await api.call("GET", "/jobs")).json
    assert len(page["jobs"]) == 100
    assert len((await api.call("GET", f"/jobs?cursor={page['next_cursor']}")).json["jobs"]) == 1


async def test_filters_combine(api):
    """State, kind and queue, alone and together."""
    a = (await api.enqueue(kind="a", queue="x"))["id"]
    b = (await api.enqueue(kind="b", queue="x"))["id"]
    c = (await api.enqueue(kind="a", queue="y"))["id"]
    await api.call("POST", f"/jobs/{b}/cancel")
    for query, expected in (
        ("", [c, b, a]),
        ("?kind=a", [c, a]),
        ("?queue=x", [b, a]),
        ("?state=queued", [c, a]),
        ("?state=canceled&queue=x", [b]),
        ("?state=queued&queue=y&kind=a", [c]),
        ("?state=running", []),
        ("?queue=nobody", []),
    ):
        page = (await api.call("GET", f"/jobs{query}")).json
        assert ([job["id"] for job in page["jobs"]], page["next_cursor"]) == (expected, None), query


async def test_the_dead_are_listed_by_arrival(api):
    """Whenever they died; kind and queue narrow the list, and a requeued job leaves it."""
    dead = [await bury(api, kind=kind, queue=f"q{n}") for n, kind in enumerate("aab")]
    await api.enqueue()
    assert await walk(api, "/dead?limit=2") == dead[::-1]
    assert await walk(api, "/dead?kind=a") == [dead[1], dead[0]]
    assert await walk(api, "/dead?queue=q2&state=dead") == [dead[2]]
    await api.call("POST", f"/jobs/{dead[1]}/requeue")
    assert await walk(api, "/dead?limit=1") == [dead[2], dead[0]]


async def test_lists_refuse_what_they_do_not_know(api):
    """Every wrong parameter is told at once; a cursor belongs to its list."""
    await api.call("POST", "/jobs/batch", {"jobs": [{"kind": "k"}] * 2})
    cursor = (await api.call("GET", "/jobs?limit=1")).json["next_cursor"]
    wrong = "limit=0&state=scheduled&kind=&queue=a&queue=b&cursor=x&color=red"
    assert set((await api.call("GET", f"/jobs?{wrong}")).faults()) == {
        "limit", "state", "kind", "queue", "cursor", "color",
    }  # fmt: skip
    assert set((await api.call("GET", f"/dead?state=queued&limit=1001&cursor={cursor}")).faults()) == {
        "state", "limit", "cursor",
    }  # fmt: skip


async def test_an_answer_ends_early_before_it_is_too_large(api, monkeypatch):
    """It holds at least one job, and the cursor goes on behind the last."""
    ids = [(await api.enqueue(payload="x" * size))["id"] for size in (5_000, 100, 100, 100)]
    monkeypatch.setattr(routes_jobs, "ANSWER_BYTES_MAX", 2_500)
    pages = []
    cursor = ""
    while cursor is not None:
        answer = await api.call("GET", "/jobs" + (f"?cursor={cursor}" if cursor else ""))
        assert len(answer.json["jobs"]) == 1 or len(answer.body) <= 2_500
        pages.append([job["id"] for job in answer.json["jobs"]])
        cursor = answer.json["next_cursor"]
    assert len(pages) > 2
    assert [each for page in pages for each in page] == ids[::-1]


async def test_a_history_is_whole_and_in_order(api, monkeypatch):
    """However many pieces it is read in; `after` and `limit` cut a stretch out of it."""
    monkeypatch.setattr(routes_jobs, "HISTORY_CHUNK", 3)
    job = (await api.enqueue())["id"]
    for token in range(1, 5):
        await api.lease()
        await api.call("POST", f"/jobs/{job}/release", {"token": token})
    path = f"/jobs/{job}/events"
    events = (await api.call("GET", path)).json["events"]
    assert [event["version"] for event in events] == list(range(1, 10))
    assert [event["type"] for event in events[:3]] == ["job_enqueued", "job_leased", "lease_released"]
    for query, stretch in (("?after=4", events[4:]), ("?limit=5", events[:5]), ("?after=2&limit=3", events[2:5])):
        assert (await api.call("GET", path + query)).json["events"] == stretch
    assert (await api.call("GET", f"{path}?after=9")).json["events"] == []
    assert set((await api.call("GET", f"{path}?after=-1&limit=0&cursor=x")).faults()) == {"after", "limit", "cursor"}
    monkeypatch.setattr(routes_jobs, "ANSWER_BYTES_MAX", 2_000)
    short = (await api.call("GET", path)).json["events"]
    assert 1 <= len(short) < 9
    assert short == events[: len(short)]


async def test_a_long_history_lets_others_in(api, monkeypatch, turns):
    """Between two pieces whatever else is ready gets its turn."""
    monkeypatch.setattr(routes_jobs, "HISTORY_CHUNK", 1)
    job = (await api.enqueue())["id"]
    for token in range(1, 4):
        await api.lease()
        await api.call("POST", f"/jobs/{job}/release", {"token": token})
    turns.clear()
    assert len((await api.call("GET", f"/jobs/{job}/events")).json["events"]) == 7
    assert turns[:14] == ["read", "other"] * 7
