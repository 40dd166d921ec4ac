"""Refusals over HTTP: the right status and code, in the documented order, and without a trace in the log."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from eventjobs.api import body as bodies
from eventjobs.api.app import RUNNER_OPTIONS, build_app
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.domain.limits import BODY_BYTES_MAX

WRONG_TYPE = {"Content-Type": "text/plain"}
VERBS_OF_WORKERS = ("renew", "complete", "fail", "release")
VERBS_OF_OPERATORS = ("cancel", "requeue")
NOBODYS = "3f1c6a2e-9b0d-4e57-8a41-5d2c7b9e6f03"
"""The id of no job; written out, as tests have the same names in every run."""


@pytest.mark.parametrize("path", ["/", "/nowhere", "/jobs/", "/jobs/x/y", "/jobs/x/events/", "/Jobs", "/jobs/x/"])
async def test_a_path_that_is_none_is_not_found(api, path):
    """Whatever the method, the body and its type."""
    for method in ("GET", "POST", "DELETE"):
        answer = await api.call(method, path, raw=b"{", headers=WRONG_TYPE)
        answer.refusal(404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/jobs", {"GET", "HEAD", "POST"}),
        ("/jobs/batch", {"POST"}),
        ("/jobs/x", {"GET", "HEAD"}),
        ("/jobs/x/events", {"GET", "HEAD"}),
        ("/jobs/x/cancel", {"POST"}),
        ("/lease", {"POST"}),
        ("/complete", {"POST"}),
        ("/dead", {"GET", "HEAD"}),
        ("/dead/requeue", {"POST"}),
        ("/erase", {"POST"}),
        ("/events", {"GET", "HEAD"}),
        ("/openapi.json", {"GET", "HEAD"}),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(api, path, allowed):
    """405 with Allow, before anything of the body is looked at."""
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - allowed:
        answer = await api.call(method, path, raw=b"{", headers=WRONG_TYPE)
        answer.refusal(405, "method_not_allowed")
        assert set(answer.headers["Allow"].split(",")) == allowed


async def test_a_body_has_a_size_limit(api):
    """One byte more than 16 MiB is 413, before its type is looked at; exactly 16 MiB is not."""
    most = b" " * (BODY_BYTES_MAX - 12) + b'{"kind":"k"}'
    assert (await api.call("POST", "/jobs", raw=most)).status == 201
    answer = await api.call("POST", "/jobs", raw=b" " + most, headers=WRONG_TYPE)
    assert str(BODY_BYTES_MAX) in answer.refusal(413, "too_large")["detail"]


async def test_a_body_of_unknown_length_has_the_same_limit(api):
    """Sent in chunks, it is cut off when it passes the limit."""

    async def chunks():
        for _ in range(17):
            yield b" " * (1 << 20)

    async with api.session.post(api.base + "/jobs", data=chunks(), headers=WRONG_TYPE) as response:
        assert response.status == 413
        assert (await response.json(content_type=None))["code"] == "too_large"


@pytest.mark.parametrize("content_type", ["text/plain", "text/json", "application/x-www-form-urlencoded", "json", ""])
async def test_another_type_of_body_is_refused(api, content_type):
    """Before its text is looked at."""
    answer = await api.call("POST", "/jobs", raw=b"{", headers={"Content-Type": content_type})
    answer.refusal(415, "unsupported_media_type")


async def test_a_body_without_a_type_is_refused(api):
    """Where a body has to be, none at all is the same."""
    (await api.call("POST", "/jobs")).refusal(415, "unsupported_media_type")
    (await api.call("POST", f"/jobs/{uuid4()}/release")).refusal(415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
async def test_the_type_is_read_as_http_writes_it(api, content_type):
    """Letter case and parameters are of no meaning."""
    assert (await api.call("POST", "/jobs", {"kind": "k"}, headers={"Content-Type": content_type})).status == 201


async def test_an_encoded_body_is_refused(api):
    """A body is not unpacked: its size would be unknown."""
    answer = await api.call("POST", "/jobs", {"kind": "k"}, headers={"Content-Encoding": "br"})
    answer.refusal(415, "unsupported_media_type")


async def test_a_malformed_body_goes_before_wrong_values(api):
    """400 for the text as a whole, wherever it breaks."""
    for raw in (b"", b"{", b'{"kind":1,"payload":NaN}', b'{"kind":1,"payload":"\xff"}', b'[{"kind":1},"\\ud800"]'):
        (await api.call("POST", "/jobs", raw=raw)).refusal(400, "malformed_json")
    for verb in VERBS_OF_OPERATORS:
        (await api.call("POST", f"/jobs/{uuid4()}/{verb}", raw=b" ")).refusal(400, "malformed_json")


@pytest.mark.parametrize("job", [NOBODYS, "x", "0" * 36, NOBODYS[:-1], "%00", "a%2Fb"])
async def test_wrong_values_go_before_an_unknown_job(api, job):
    """422 first; then a text that is the id of no job is 404, whether it is a UUID or not."""
    for verb in (*VERBS_OF_WORKERS, *VERBS_OF_OPERATORS):
        wrong = await api.call("POST", f"/jobs/{job}/{verb}", {"surprise": 1})
        assert "surprise" in wrong.faults()
    for verb in VERBS_OF_WORKERS:
        right = {"token": 1, "error": "e"} if verb == "fail" else {"token": 1}
        (await api.call("POST", f"/jobs/{job}/{verb}", right)).refusal(404, "job_not_found")
    for verb in VERBS_OF_OPERATORS:
        (await api.call("POST", f"/jobs/{job}/{verb}")).refusal(404, "job_not_found")
    (await api.call("GET", f"/jobs/{job}?a=1")).faults()
    (await api.call("GET", f"/jobs/{job}")).refusal(404, "job_not_found")
    (await api.call("GET", f"/jobs/{job}/events")).refusal(404, "job_not_found")


async def test_faults_of_header_query_and_body_are_told_together(api):
    """One answer has them all."""
    headers = {"Eventjobs-Actor": "é", "Idempotency-Key": "a\tb"}
    answer = await api.call("POST", "/jobs?dry_run=1", {"priority": "high"}, headers=headers)
    assert set(answer.faults()) == {"dry_run", "Eventjobs-Actor", "Idempotency-Key", "kind", "priority"}
    answer = await api.call("POST", "/jobs?dry_run=1", [], headers=headers)
    assert set(answer.faults()) == {"dry_run", "Eventjobs-Actor", "Idempotency-Key", ""}


@pytest.mark.parametrize("path", ["/jobs/batch", "/renew", "/complete", "/fail"])
async def test_a_bulk_body_of_the_wrong_shape_is_refused_whole(api, path):
    """Every item's faults are told, and nothing of the others happens."""
    good = {"kind": "k"} if path == "/jobs/batch" else {"id": str(uuid4()), "token": 1, "error": "e"}
    if path in ("/renew", "/complete"):
        del good["error"]
    answer = await api.call("POST", path, {"jobs": [good, {**good, "extra": 1}, 5], "more": 1})
    assert set(answer.faults()) == {"jobs[1].extra", "jobs[2]", "more"}
    assert set((await api.call("POST", path, {"jobs": [good] * 1001})).faults()) == {"jobs"}
    assert set((await api.call("POST", path, {})).faults()) == {"jobs"}
    assert await api.log_size() == 0


async def test_refusals_leave_no_trace(api):
    """After every sort of refusal the log is as it was."""
    job = (await api.enqueue())["id"]
    await api.lease()
    size = await api.log_size()
    for path, body in (
        (f"/jobs/{job}/complete", {"token": 2}),
        (f"/jobs/{job}/complete", {"token": 1.0}),
        (f"/jobs/{job}/requeue", {}),
        ("/complete", {"jobs": [{"id": job, "token": 1}, {"id": job}]}),
        ("/jobs/batch", {"jobs": [{"kind": "k"}, {"kind": ""}]}),
        ("/lease", {"worker": "w", "max_jobs": 1001}),
    ):
        assert (await api.call("POST", path, body)).status >= 400
    assert await api.log_size() == size


class Failing:
    """Stands in for a coordinator's method and raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def __call__(self, *args: object, **kwargs: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (Unavailable("overloaded", "too many", 7), 503, "overloaded", "7"),
        (Unavailable("shutting_down", "going"), 503, "shutting_down", "1"),
        (Unavailable("storage_full", "no room", 10), 507, "storage_full", None),
        (UnknownOutcome("the disk failed"), 503, "shutting_down", "1"),
        (RuntimeError("a secret"), 500, "internal", None),
    ],
)
async def test_what_the_coordinator_cannot_do_is_told(api, monkeypatch, error, status, code, retry_after):
    """Each failure has its code; a 503 says when to ask again, a 500 does not say what went wrong."""
    monkeypatch.setattr(api.coordinator, "enqueue", Failing(error))
    answer = await api.call("POST", "/jobs", {"kind": "k"})
    assert "secret" not in str(answer.refusal(status, code))
    assert answer.headers.get("Retry-After") == retry_after


async def test_a_full_store_takes_no_new_jobs(api):
    """507 for new work, and not ready for more; what is in can be finished."""
    job = (await api.enqueue())["id"]
    api.engine.room = False
    (await api.call("POST", "/jobs", {"kind": "k"})).refusal(507, "storage_full")
    (await api.call("GET", "/readyz")).refusal(503, "overloaded")
    await api.lease()
    assert (await api.call("POST", f"/jobs/{job}/complete", {"token": 1})).status == 200


async def test_a_draining_coordinator_refuses_commands_and_can_be_read(api, lease_began):
    """503 for what would write; waiting leases end with nothing; reading and health go on, readiness ends."""
    job = (await api.enqueue())["id"]
    assert (await api.call("GET", "/readyz")).json == {"status": "ready"}
    waiting = asyncio.ensure_future(api.call("POST", "/lease", {"worker": "w", "queues": ["none"], "wait_seconds": 60}))
    await lease_began.wait()
    api.coordinator.drain()
    assert (await waiting).json == {"jobs": []}
    for path, body in (
        ("/jobs", {"kind": "k"}),
        ("/lease", {"worker": "w"}),
        (f"/jobs/{job}/cancel", {}),
        ("/complete", {"jobs": [{"id": job, "token": 1}]}),
    ):
        answer = await api.call("POST", path, body)
        answer.refusal(503, "shutting_down")
        assert int(answer.headers["Retry-After"]) >= 1
    answer = await api.call("GET", "/readyz")
    answer.refusal(503, "shutting_down")
    assert "Retry-After" in answer.headers
    assert (await api.call("GET", "/healthz")).json == {"status": "ok"}
    assert (await api.call("GET", f"/jobs/{job}")).status == 200


async def test_a_client_that_hangs_up_is_no_error(api, caplog):
    """A body that ends in the middle leaves no trace, in the log of events or of the program."""
    host, port = api.base.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
    await writer.drain()
    await api.call("GET", "/healthz")
    with capture_logs() as logs:
        writer.close()
        await writer.wait_closed()
        for _ in range(3):
            await api.call("GET", "/healthz")
    assert await api.log_size() == 0
    assert logs + [record for record in caplog.records if record.name == "aiohttp.server"] == []


async def test_a_body_that_does_not_come_is_not_waited_for_without_end(api, monkeypatch):
    """A sender that stops in the middle of a body and stays is refused after a while, and its connection closed."""
    monkeypatch.setattr(bodies, "BODY_SECONDS_MAX", 0.05)
    host, port = api.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
    await writer.drain()
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ") and b"malformed_json" in answer
    assert await api.log_size() == 0


@pytest.mark.parametrize("sent", [b"", b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Ty"])
async def test_a_head_that_never_ends_holds_no_connection_for_ever(api, sent):
    """A connection on which no request comes to be is closed after a time, whatever part of a head was sent."""
    assert 600 < RUNNER_OPTIONS["keepalive_timeout"] < 900, "after load balancers close theirs, and before long"
    runner = web.AppRunner(build_app(api.coordinator), **RUNNER_OPTIONS | {"keepalive_timeout": 0.1})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), timeout=30) == b""
        writer.close()
    finally:
        await runner.cleanup()
