"""Every route and every error code of the application is in the contract, and the contract has no others."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from eventjobs.api.app import build_app
from eventjobs.api.problems import STATUS_AND_TITLE

REFUSED_BY_STATE = {
    "/jobs": {"idempotency_key_reused"},
    "/jobs/batch": {"idempotency_key_reused"},
    "/jobs/{id}/renew": {"stale_token", "lease_expired"},
    "/jobs/{id}/complete": {"stale_token"},
    "/jobs/{id}/fail": {"stale_token"},
    "/jobs/{id}/release": {"stale_token"},
    "/jobs/{id}/cancel": {"illegal_transition"},
    "/jobs/{id}/erase": {"illegal_transition"},
    "/jobs/{id}/requeue": {"illegal_transition"},
}
"""The 409s of each path; in bulk they are per item. Which refusal comes when is held by the lifecycle's tests."""

TAKES_ANY_QUERY = {"/metrics", "/healthz", "/readyz", "/openapi.json"}


def resolved(contract: dict, node: dict) -> dict:
    """The node, or what it refers to."""
    while "$ref" in node:
        found = contract
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def codes_of(contract: dict, response: dict) -> set[str]:
    """The codes a documented refusal may have."""
    schema = resolved(contract, response)["content"]["application/problem+json"]["schema"]
    code = schema["allOf"][1]["properties"]["code"]
    return set(code.get("enum", [code.get("const")]))


def status_of(contract: dict, response: dict) -> int:
    """The status that the body of a documented refusal repeats."""
    schema = resolved(contract, response)["content"]["application/problem+json"]["schema"]
    return schema["allOf"][1]["properties"]["status"]["const"]


def refusals(responses: dict) -> dict[str, dict]:
    """The answers of an operation that are refusals, by status."""
    return {status: response for status, response in responses.items() if status >= "400"}


def test_routes_and_contract_are_the_same(operations):
    """The application answers the methods and paths of the contract and no others; HEAD comes with every GET."""
    app = build_app(SimpleNamespace(clock=SimpleNamespace(now=lambda: 0), take_in=lambda reader: None))
    routes = {(route.method, route.resource.canonical) for route in app.router.routes()}
    heads = {(method, path) for method, path in routes if method == "HEAD"}
    assert routes - heads == set(operations)
    assert {path for _, path in heads} == {path for method, path in operations if method == "GET"}


def test_every_code_is_documented_at_its_status_and_no_other_is(contract, operations):
    """The codes of the application's problems, each at its status, are those the contract lists."""
    documented = {
        (code, int(status))
        for responses in [*(each["responses"] for each in operations.values()), contract["x-any-request"]]
        for status, response in refusals(responses).items()
        for code in codes_of(contract, response)
    }
    assert documented == {(code, status) for code, (status, _) in STATUS_AND_TITLE.items()}


def test_reserved_codes_are_not_used(contract):
    """What the contract keeps for later is told by no part of the application, and listed among the codes."""
    reserved = {code for response in contract["x-reserved"].values() for code in codes_of(contract, response)}
    assert reserved == {"unauthorized", "forbidden"}
    listed = contract["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert set(listed) == reserved | set(STATUS_AND_TITLE)


def test_a_refusal_repeats_its_status(contract, operations):
    """The status documented for a refusal's body is the one it is listed under."""
    for each in [*(each["responses"] for each in operations.values()), contract["x-any-request"]]:
        for status, response in refusals(each).items():
            assert status_of(contract, response) == int(status)


def test_every_operation_has_the_refusals_that_can_meet_it(contract, operations):
    """Bodies can be malformed, too large, of a foreign type or invalid; queries invalid; jobs missing; commands refused
    for want of time or room; and each change of a job by its state."""
    for (method, path), operation in operations.items():
        expected = set()
        if method == "POST":
            expected |= {"400", "413", "415", "503", "507"}
        if path not in TAKES_ANY_QUERY:
            expected.add("422")
        if "{id}" in path:
            expected.add("404")
        if method == "POST" and path in REFUSED_BY_STATE:
            expected.add("409")
        if path in {"/readyz", "/backup"}:
            expected.add("503")
        if path == "/backup":
            expected.add("501")
        assert set(refusals(operation["responses"])) == expected, (method, path)
        if "409" in expected:
            assert codes_of(contract, operation["responses"]["409"]) == REFUSED_BY_STATE[path], path


@pytest.mark.parametrize("path", ["/jobs/{id}/cancel", "/jobs/{id}/erase", "/jobs/{id}/requeue", "/dead/requeue"])
def test_a_body_may_be_absent_where_the_contract_says_so(operations, path):
    """Only these requests come without a body."""
    assert not operations["POST", path]["requestBody"]["required"]
    optional = {p for (m, p), each in operations.items() if m == "POST" and not each["requestBody"]["required"]}
    assert path in optional and len(optional) == 4


def test_paths_name_their_parameters(operations, contract):
    """Every name in a path's braces is declared as a parameter of that path."""
    for _, path in operations:
        declared = [resolved(contract, each)["name"] for each in contract["paths"][path].get("parameters", [])]
        assert re.findall(r"\{(\w+)\}", path) == declared, path
