"""Every event names who did it: as specs/events.md says of its sort, and by the name that they gave."""

from __future__ import annotations

import re
from pathlib import Path

from eventjobs.domain.commands import COORDINATOR, RETENTION, Expire, ForgetKey, Retire
from eventjobs.domain.events import EVENT_TYPES

SPEC = Path(__file__).parents[3] / "specs" / "events.md"
SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## )", re.DOTALL | re.MULTILINE)
TYPES = ("producer", "worker", "operator", "coordinator")


def specified() -> dict[str, set[str]]:
    """Who may have done what, by the sort of event."""
    actors = {}
    for name, text in SECTION.findall(SPEC.read_text(encoding="utf-8")):
        said = re.search(r"Actor:([^|`]*?)(?:`\w+`)?\.", text.replace("\n", " "))
        if name in EVENT_TYPES:
            actors[name] = {each for each in TYPES if each in said[1]}
    return actors


async def test_every_event_names_its_actor(api):
    """Alone and in bulk, by requests, timers and rules: the sort of actor is that of the catalogue, the name that of
    the header, of the lease's owner, or of the coordinator's part."""
    named = {"Eventjobs-Actor": "ada"}

    async def call(path: str, body: object) -> dict:
        answer = await api.call("POST", path, body, headers=named)
        assert answer.status in (200, 201), answer
        return answer.json

    first = (await call("/jobs", {"kind": "k", "max_attempts": 2, "idempotency_key": "key"}))["id"]
    batch = [{"kind": "k", "max_attempts": 1 + (n == 3), "payload": 1} for n in range(4)]
    others = [job["id"] for job in (await call("/jobs/batch", {"jobs": batch}))["jobs"]]
    await call("/lease", {"worker": "w", "max_jobs": 5})
    await call(f"/jobs/{first}/renew", {"token": 1})
    await call(f"/jobs/{first}/release", {"token": 1})
    await call("/lease", {"worker": "w"})
    await call(f"/jobs/{first}/fail", {"token": 2, "error": "e", "retry_in_seconds": 0})
    await call("/lease", {"worker": "w"})
    await call("/complete", {"jobs": [{"id": first, "token": 3}, {"id": others[0], "token": 1}]})
    await call("/fail", {"jobs": [{"id": each, "token": 1, "error": "e"} for each in others[1:3]]})
    await call(f"/jobs/{others[1]}/requeue", {})
    await call("/dead/requeue", {})
    await call(f"/jobs/{others[1]}/cancel", {"reason": "no"})
    await call(f"/jobs/{others[1]}/erase", {})
    await call("/erase", {"state": "succeeded"})
    for _ in range(2):
        api.clock.pass_seconds(60)
        now = api.clock.now()
        await api.coordinator.execute([Expire(job_id=others[3], now=now, actor=COORDINATOR)])
        await call("/lease", {"worker": "w", "max_jobs": 5})
    await api.coordinator.execute([Retire(job_id=first, rule="succeeded 1m", now=now, actor=RETENTION)])
    await api.coordinator.execute([ForgetKey(job_id=first, rule="keys 1m", now=now, actor=RETENTION)])
    names = {"producer": {"ada"}, "operator": {"ada"}, "worker": {"w"}, "coordinator": {"rescuer", "retention"}}
    events = (await api.call("GET", "/events?limit=1000")).json["events"]
    allowed = specified()
    for event in events:
        actor = event["actor"]
        assert actor["type"] in allowed[event["type"]], event
        assert actor["id"] in names[actor["type"]], event
    assert {event["type"] for event in events} == set(EVENT_TYPES)
    assert set(allowed) == set(EVENT_TYPES) and all(allowed.values())
