"""Answers that carry something: a story with every event, every refusal that a client can bring about, the stream.

Each answer is held against the contract with all its objects closed.
"""

from __future__ import annotations

import io
import json

import pytest
import requests
import schemathesis
import urllib3
from schemathesis.config import SchemathesisConfig

from eventjobs.api.problems import STATUS_AND_TITLE, Problem, retry_later
from eventjobs.domain.events import EVENT_TYPES
from eventjobs.domain.limits import CONTENT_BYTES_MAX
from eventjobs.testing.contract import closed, contract
from eventjobs.testing.processes import wait_for

SCHEMA = schemathesis.openapi.from_dict(closed(contract()), config=SchemathesisConfig(seed=1))
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"

BY_RULES = {"contents_erased", "job_retired", "idempotency_key_forgotten"}
"""Events that only retention brings about."""


def checked(path: str, answer: requests.Response, status: int) -> dict:
    """The answer's document, after status and body were held against the contract. `path` is the contract's."""
    assert answer.status_code == status, answer.text
    SCHEMA[path][answer.request.method].validate_response(answer)
    return answer.json()


@pytest.fixture(scope="module")
def story(api) -> list[dict]:
    """The events of three jobs to which everything happens that can."""
    made = api.post(
        "/jobs",
        json={
            "kind": "k",
            "queue": "q",
            "max_attempts": 2,
            "idempotency_key": "story",
            "run_at": "2020-01-01T00:00:00Z",
        },
    )
    job = checked("/jobs", made, 201)
    word = f"/jobs/{job['id']}"

    def lease(**more: object) -> int:
        body = {"worker": "w", "queues": ["q"], "wait_seconds": 5, **more}
        (leased,) = checked("/lease", api.post("/lease", json=body), 200)["jobs"]
        return leased["lease_token"]

    def say(verb: str, **body: object) -> dict:
        return checked(f"/jobs/{{id}}/{verb}", api.post(f"{word}/{verb}", json=body), 200)

    say("renew", token=lease(), lease_seconds=60)
    say("release", token=1)
    say("fail", token=lease(request_id="r"), error={"type": "E", "message": "m", "traceback": "t"}, retry_in_seconds=0)
    say("fail", token=lease(), error="again")
    say("requeue")
    say("complete", token=lease(), result={"n": 1.50})
    expired = api.waiting()
    api.post("/lease", json={"worker": "w", "queues": [expired["queue"]], "lease_seconds": 0.1})
    rescued = wait_for(lambda: _queued(api, expired["id"]), "the rescuer")
    assert checked("/jobs/{id}", rescued, 200)["error"]["type"] == "lease_expired"
    canceled = api.waiting(delay_seconds=60, payload=None)
    checked("/jobs/{id}/cancel", api.post(f"/jobs/{canceled['id']}/cancel", json={"reason": "no"}), 200)
    told = [api.get(f"/jobs/{each}/events") for each in (job["id"], expired["id"], canceled["id"])]
    return [event for answer in told for event in checked("/jobs/{id}/events", answer, 200)["events"]]


def _queued(api, job_id: str) -> requests.Response | None:
    answer = api.get(f"/jobs/{job_id}")
    return answer if answer.json()["state"] == "queued" else None


def test_every_event_has_the_shape_the_contract_gives_it(api, story):
    """Each type of event occurs in the story, and each is told by its job's history, the log and the stream alike."""
    assert {event["type"] for event in story} == set(EVENT_TYPES) - BY_RULES
    log = checked("/events", api.get("/events", params={"limit": 1000}), 200)
    assert [event for event in story if event not in log["events"]] == []
    assert [event["position"] for event in log["events"]] == list(range(1, log["head"]["size"] + 1))
    streamed = api.get("/events", headers={"Accept": "text/event-stream"}, params={"limit": len(log["events"])})
    assert streamed.headers["Content-Type"] == "text/event-stream"
    messages = [message.split("\n") for message in streamed.text.split("\n\n") if message.strip(":\n")]
    for (position, event_type, data), event in zip(messages, log["events"], strict=True):
        assert (position, event_type) == (f"id: {event['position']}", f"event: {event['type']}")
        assert json.loads(data.removeprefix("data: ")) == event


@pytest.mark.usefixtures("story")
def test_lists_numbers_and_the_repeated_request_are_as_documented(api):
    """Pages with jobs in every state they can be in, statistics of jobs that ran, and a replayed enqueue."""
    api.dead()
    page = checked("/jobs", api.get("/jobs", params={"limit": 2}), 200)
    assert checked("/jobs", api.get("/jobs", params={"cursor": page["next_cursor"], "limit": 1000}), 200)["jobs"]
    assert checked("/dead", api.get("/dead", params={"state": "dead"}), 200)["jobs"]
    assert checked("/stats", api.get("/stats"), 200)["average_run_seconds"] > 0
    body = {"kind": "k", "idempotency_key": "twice"}
    checked("/jobs", api.post("/jobs", json=body), 201)
    repeated = api.post("/jobs", json={"kind": "k"}, headers={"Idempotency-Key": "twice"})
    checked("/jobs", repeated, 200)
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert checked("/jobs/batch", api.post("/jobs/batch", json={"jobs": [body, {"kind": "k"}]}), 201)["created"] == 1
    assert checked("/dead/requeue", api.post("/dead/requeue"), 200)["requeued"] == 1
    assert checked("/erase", api.post("/erase", json={"older_than_seconds": 0}), 200)["erased"] > 0


def test_bulk_results_are_as_documented(api):
    """Done and refused side by side, with and without a lease."""
    job = api.running()
    items = [
        {"id": job["id"], "token": 1},
        {"id": job["id"], "token": 2},
        {"id": NOBODY, "token": 1},
        {"id": "x", "token": 1},
    ]
    for path, more in (("/renew", {}), ("/complete", {"result": 1})):
        results = checked(path, api.post(path, json={"jobs": [{**item, **more} for item in items]}), 200)["results"]
        assert [result["ok"] for result in results] == [True, False, False, False]
        codes = [result["problem"]["code"] for result in results[1:]]
        assert codes == ["stale_token", "job_not_found", "job_not_found"]


def refusal_cases(api) -> list[tuple[str, requests.Response, str]]:
    """(the contract's path, an answer, its code) for every refusal that a client can bring about."""
    job, running = api.waiting(idempotency_key="taken"), api.running()
    word = f"/jobs/{running['id']}"
    large = {"kind": "k", "payload": "x" * CONTENT_BYTES_MAX}
    two = [{"kind": "k", "idempotency_key": "new"}, {"kind": "l", "idempotency_key": "new"}]
    return [
        ("/jobs", api.post("/jobs", data="{", headers={"Content-Type": "application/json"}), "malformed_json"),
        ("/jobs", api.post("/jobs", data="{}", headers={"Content-Type": "text/plain"}), "unsupported_media_type"),
        ("/jobs", api.post("/jobs", json=large), "too_large"),
        ("/jobs", api.post("/jobs", json={"kind": 1, "queue": "", "more": 2}), "invalid_request"),
        ("/jobs", api.get("/jobs", params={"limit": 0, "more": 1}), "invalid_request"),
        (
            "/jobs",
            api.post("/jobs", json={"kind": "k", "idempotency_key": "taken", "payload": 2}),
            "idempotency_key_reused",
        ),
        ("/jobs/batch", api.post("/jobs/batch", json={"jobs": two}), "idempotency_key_reused"),
        ("/jobs/{id}", api.get(f"/jobs/{NOBODY}"), "job_not_found"),
        ("/jobs/{id}", api.get("/jobs/no-uuid"), "job_not_found"),
        ("/jobs/{id}/events", api.get(f"/jobs/{NOBODY}/events"), "job_not_found"),
        ("/jobs/{id}/complete", api.post(f"{word}/complete", json={"token": 7}), "stale_token"),
        ("/jobs/{id}/fail", api.post(f"{word}/fail", json={"token": 7, "error": ""}), "stale_token"),
        ("/jobs/{id}/release", api.post(f"{word}/release", json={"token": 7}), "stale_token"),
        ("/jobs/{id}/renew", api.post(f"{word}/renew", json={"token": 7}), "stale_token"),
        ("/jobs/{id}/requeue", api.post(f"/jobs/{job['id']}/requeue"), "illegal_transition"),
    ]


def test_every_refusal_is_as_documented(api):
    """Each refusal has its code, its status and the members the contract gives it."""
    for path, answer, code in refusal_cases(api):
        problem = checked(path, answer, STATUS_AND_TITLE[code][0])
        assert problem["code"] == code
        assert answer.headers["Content-Type"].partition(";")[0] == "application/problem+json"


def test_a_reused_key_shows_its_job(api):
    """The refusal has the job that holds the key; between two jobs of one batch there is none, but its place."""
    held = api.waiting(idempotency_key="held")
    problem = api.post("/jobs", json={"kind": "other", "idempotency_key": "held"}).json()
    assert problem["job"] == held
    two = [{"kind": "k", "idempotency_key": "fresh"}, {"kind": "l", "idempotency_key": "fresh"}]
    problem = api.post("/jobs/batch", json={"jobs": two}).json()
    assert (problem["index"], "job" in problem) == (1, False)


def test_what_no_path_has_is_told_in_the_same_form(api):
    """A path that is not there, and a method that is not, are problems like all others."""
    shape = set(contract()["components"]["schemas"]["Problem"]["required"])
    missing, wrong = api.get("/nowhere"), api.delete("/jobs")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert {"GET", "POST"} <= {method.strip() for method in wrong.headers["Allow"].split(",")}
    assert set(missing.json()) == set(wrong.json()) == shape


def made(method: str, status: int, headers: dict, body: bytes) -> requests.Response:
    """An answer that never was on a wire."""
    raw = urllib3.HTTPResponse(io.BytesIO(body), headers, status, preload_content=False)
    request = requests.Request(method, "http://127.0.0.1/").prepare()
    return requests.adapters.HTTPAdapter().build_response(request, raw)


@pytest.mark.parametrize(
    "problem",
    [
        retry_later("overloaded", "later", 1),
        retry_later("shutting_down", "later", 1),
        Problem("storage_full", "no room"),
    ],
)
def test_refusals_for_want_of_time_or_room_are_as_documented(problem):
    """What a client cannot bring about at will has the documented form too, with the header that goes with it."""
    told = problem.response()
    answer = made("POST", told.status, dict(told.headers), told.body)
    assert checked("/jobs", answer, STATUS_AND_TITLE[problem.code][0])["code"] == problem.code
    assert ("Retry-After" in told.headers) == (problem.status == 503)


def shown_answers() -> list[tuple[str, str, int, str, object]]:
    """(path, method, status, content type, value) of every answer that the contract shows as an example."""
    document = contract()

    def resolved(node: dict) -> dict:
        while "$ref" in node:
            group, name = node["$ref"].split("/")[-2:]
            node = document["components"][group][name]
        return node

    return [
        (path, method.upper(), int(status), content_type, resolved(example)["value"])
        for path, item in document["paths"].items()
        for method in {"get", "post"} & item.keys()
        for status, response in item[method]["responses"].items()
        for content_type, media in resolved(response)["content"].items()
        for example in media.get("examples", {}).values()
    ]


def test_the_answers_shown_in_the_contract_keep_it():
    """Every example of an answer is one that the contract allows."""
    shown = [each for each in shown_answers() if each[3] != "text/event-stream"]
    assert len(shown) > 20
    for path, method, status, content_type, value in shown:
        checked(path, made(method, status, {"Content-Type": content_type}, json.dumps(value).encode()), status)


def test_the_stream_shown_in_the_contract_holds_an_event_that_keeps_it():
    """The example of a stream is one message, whose data is an event as the log has them."""
    ((_, _, _, _, text),) = [each for each in shown_answers() if each[3] == "text/event-stream"]
    data = json.loads(text.partition("\ndata: ")[2])
    log = {"events": [data], "head": {"size": 7, "root": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}}
    checked("/events", made("GET", 200, {"Content-Type": "application/json"}, json.dumps(log).encode()), 200)
