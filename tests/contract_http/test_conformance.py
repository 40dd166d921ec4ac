"""A running coordinator keeps the contract, whatever is asked: requests made from it, and requests that break it.

Schemathesis makes the requests, the same ones at every run. The contract is closed for this, so an answer with a
member that is not documented fails as well.
"""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks as built_in

from eventjobs.testing.contract import closed, contract

STEADY = settings(
    max_examples=settings.default.max_examples // 2,
    derandomize=True,
    database=None,
    deadline=None,
    # what a body of this contract takes to draw varies much; nothing is learned from it
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
WAIT_SECONDS = 0.01

EXCLUDED = [
    # replaced by accepts_what_is_valid: some rules between two values cannot be said in JSON Schema
    built_in.positive_data_acceptance,
    # there is nothing to log in to
    built_in.ignored_auth,
    built_in.object_level_authorization,
    # nothing is ever deleted
    built_in.use_after_free,
]

BEYOND_JSON_SCHEMA = [
    ("idempotency_key", "must equal the header"),  # header and body agree
    ("base", "must not be above max_delay"),  # one number bounds another, which may be a default
    ("cursor", "must be the next_cursor"),  # a cursor is opaque and only the coordinator makes one
    ("position", "must be given, or else from"),  # exactly one of two parameters
    ("from", "must not be given together with position"),
    ("position", "must be one of the first"),  # what is there bounds what can be proved
    ("from", "must be at most"),
    ("size", "must be at most"),
    ("at", "must be a position from"),  # how long the log is bounds the points that there are
    ("at", "must not be later than"),
    ("at", "must not be earlier than"),
    ("at", "must be a point of the log, which is empty"),
    ("at", "must be a position of the log, or a time: lie in the years"),
]
"""(end of the path, beginning of the message) of faults in requests that the schema calls valid."""


def accepts_what_is_valid(ctx: object, response: object, case: schemathesis.Case) -> None:
    """A request made from the contract is not refused for its form, but for the rules that JSON Schema cannot say."""
    if case.meta.generation.mode.is_positive and response.status_code in (400, 413, 415, 422):
        errors = response.json().get("errors", [])
        unexpected = [each for each in errors if not _is_beyond_json_schema(each)]
        assert errors and not unexpected, f"refused although valid: {response.json()['detail']} {unexpected}"


def _is_beyond_json_schema(error: dict) -> bool:
    return any(error["path"].endswith(end) and error["message"].startswith(text) for end, text in BEYOND_JSON_SCHEMA)


def _schema(*modes: GenerationMode):
    document = closed(contract())
    # Last-Event-ID is a follower's header: whoever reads the log as JSON sends none, and none is looked at
    document["paths"]["/events"]["get"]["parameters"].remove({"$ref": "#/components/parameters/LastEventId"})
    schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig(seed=1))
    # the patterns of names and labels are exact for ASCII; which other characters are printable no pattern can say
    schema.config.generation.codec = "ascii"
    if modes:
        schema.config.generation.modes = list(modes)
    schema.config.output.sanitization.update(enabled=False)
    # by default 404 and 409 count too; here the form is looked at first, so they would mean that it was let pass
    schema.config.checks.negative_data_rejection.expected_statuses = ["400", "405", "413", "415", "422"]
    return schema


EVERYTHING = _schema()
ABOUT_A_JOB = _schema(GenerationMode.POSITIVE).include(path_regex=r"^/(jobs/\{id\}(/\w+)?|renew|complete|fail)$")


@EVERYTHING.parametrize()
@STEADY
def test_every_answer_is_documented(case, api):
    """Status, content type, headers and body of each answer are in the contract; what breaks it is refused, what keeps
    it is not, and no request makes the coordinator fail."""
    _settle(case)
    answer = case.call(base_url=api.url, session=api)
    excluded = list(EXCLUDED)
    if case.meta.is_negative_at(ParameterLocation.PATH):
        # a text that is no UUID is the id of no job: 404 once nothing else is wrong
        assert answer.status_code >= 400, answer.text
        excluded.append(built_in.negative_data_rejection)
    case.validate_response(answer, excluded_checks=excluded, additional_checks=[accepts_what_is_valid])


@ABOUT_A_JOB.parametrize()
@STEADY
def test_every_valid_word_about_a_job_that_is_there_is_taken(case, api):
    """What the contract allows to be said of a job by the holder of its lease, or by an operator, is done."""
    _settle(case)
    job = api.dead() if case.path.endswith(("requeue", "erase")) else api.running()
    for item in _items(case, job):
        if "token" in item:
            item["token"] = job["lease_token"]
    if case.query:
        case.query.pop("at", None)  # the job is there now, and no contract can say since when
    answer = case.call(base_url=api.url, session=api)
    assert answer.status_code == 200, answer.text
    assert all(result["ok"] for result in answer.json().get("results", [])[:1]), answer.text
    case.validate_response(answer, excluded_checks=EXCLUDED)


def _items(case: schemathesis.Case, job: dict) -> list[dict]:
    """The parts of a request that speak of a job, now of this one."""
    if "id" in case.path_parameters:
        case.path_parameters["id"] = job["id"]
        return [case.body] if isinstance(case.body, dict) else []
    for item in case.body["jobs"]:
        item["id"] = job["id"]
    return case.body["jobs"]


def _settle(case: schemathesis.Case) -> None:
    """In a valid body write whole numbers as integers, as the wire tells 1.0 from 1 and JSON Schema does not; and wait
    for nothing. An invalid one stays as it was made: it is refused before anything is waited for."""
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        case.body = _whole(case.body)
        wait = case.body.get("wait_seconds")
        if type(wait) in (int, float) and 0 <= wait <= 60:
            case.body["wait_seconds"] = min(wait, WAIT_SECONDS)


def _whole(value: object) -> object:
    if isinstance(value, dict):
        return {name: each if name in ("payload", "result") else _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
