"""The service about itself: numbers, health, contract."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


async def test_stats_count_every_state(api):
    """Of all jobs, of each queue and kind; averages are null before the first."""
    none = {"queued": 0, "running": 0, "failed": 0, "succeeded": 0, "dead": 0, "canceled": 0}
    stats = (await api.call("GET", "/stats")).json
    head = (await api.call("GET", "/events")).json["head"]
    assert stats == {
        "jobs": none,
        "queues": {},
        "kinds": {},
        "average_wait_seconds": None,
        "average_run_seconds": None,
        "lease_expirations": 0,
        "head": head,
    }
    jobs = [(await api.enqueue(kind=kind, queue="q"))["id"] for kind in "aab"]
    api.clock.pass_seconds(2)
    await api.lease(max_jobs=2)
    api.clock.pass_seconds(3)
    await api.call("POST", f"/jobs/{jobs[0]}/complete", {"token": 1})
    stats = (await api.call("GET", "/stats")).json
    assert stats["jobs"] == stats["queues"]["q"] == none | {"queued": 1, "running": 1, "succeeded": 1}
    assert stats["kinds"] == {"a": none | {"running": 1, "succeeded": 1}, "b": none | {"queued": 1}}
    assert (stats["average_wait_seconds"], stats["average_run_seconds"]) == (2, 3)
    assert stats["head"]["size"] == 6


async def test_metrics_are_text_for_prometheus(api):
    """With the numbers of this coordinator's log."""
    job = (await api.enqueue())["id"]
    await api.lease()
    await api.call("POST", f"/jobs/{job}/complete", {"token": 1})
    answer = await api.call("GET", "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert families["eventjobs_jobs_processed"].samples[0].value == 1
    assert families["eventjobs_log_size"].samples[0].value == 3


async def test_the_contract_is_served(api):
    """As JSON, with the paths that exist."""
    answer = await api.call("GET", "/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["openapi"].startswith("3.")
    assert "/jobs/{id}/complete" in answer.json["paths"]


async def test_head_requests_have_no_body(api):
    """HEAD is GET without the text, refusals too."""
    job = (await api.enqueue())["id"]
    for path, status in (("/jobs", 200), (f"/jobs/{job}", 200), ("/jobs/x", 404), ("/nowhere", 404), ("/stats", 200)):
        answer = await api.call("HEAD", path)
        assert (answer.status, answer.body) == (status, b"")


async def test_probes_take_any_query(api):
    """A cache-buster does not fail a health check."""
    assert (await api.call("GET", "/healthz?t=1")).status == 200
    assert (await api.call("GET", "/readyz?t=1")).status == 200
