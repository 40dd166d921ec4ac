"""POST /jobs/{id}/erase: the contents are gone, the history stays and says who did it."""

from __future__ import annotations


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
