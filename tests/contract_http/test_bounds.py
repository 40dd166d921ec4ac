"""The bounds written into the contract are those the program keeps."""

from __future__ import annotations

import pytest

from eventjobs.domain import limits
from eventjobs.domain.events import EVENT_TYPES
from eventjobs.domain.job import DeathCause, State
from eventjobs.domain.retry import RetryPolicy
from eventjobs.domain.value import field_names

BOUNDS = [
    ("Name", {"maxLength": limits.NAME_LENGTH_MAX, "minLength": 1}),
    ("Label", {"maxLength": limits.WORKER_LENGTH_MAX, "minLength": 1}),
    ("LabelOrNull", {"maxLength": limits.IDEMPOTENCY_KEY_LENGTH_MAX, "minLength": 1}),
    ("LabelOrNull", {"maxLength": limits.REQUEST_ID_LENGTH_MAX, "minLength": 1}),
    ("CancelRequest.reason", {"maxLength": limits.REASON_LENGTH_MAX}),
    ("LeaseSeconds", {"minimum": limits.LEASE_SECONDS_MIN, "maximum": limits.LEASE_SECONDS_MAX}),
    ("LeaseRequest.lease_seconds", {"default": limits.LEASE_SECONDS_DEFAULT}),
    ("LeaseRequest.wait_seconds", {"minimum": 0, "maximum": limits.WAIT_SECONDS_MAX, "default": 0}),
    ("LeaseRequest.max_jobs", {"minimum": 1, "maximum": limits.LEASE_JOBS_MAX, "default": 1}),
    ("LeaseRequest.queues", {"minItems": 1, "maxItems": limits.FILTER_NAMES_MAX}),
    ("LeaseRequest.kinds", {"minItems": 1, "maxItems": limits.FILTER_NAMES_MAX}),
    ("EnqueueRequest.priority", {"minimum": limits.PRIORITY_MIN, "maximum": limits.PRIORITY_MAX, "default": 0}),
    ("EnqueueRequest.max_attempts", {"minimum": limits.MAX_ATTEMPTS_MIN, "maximum": limits.MAX_ATTEMPTS_MAX}),
    ("EnqueueRequest.max_attempts", {"default": limits.MAX_ATTEMPTS_DEFAULT}),
    ("EnqueueRequest.delay_seconds", {"minimum": 0, "maximum": limits.DELAY_SECONDS_MAX}),
    ("EnqueueBatchRequest.jobs", {"maxItems": limits.BATCH_JOBS_MAX}),
    ("RenewManyRequest.jobs", {"maxItems": limits.BATCH_JOBS_MAX}),
    ("CompleteManyRequest.jobs", {"maxItems": limits.BATCH_JOBS_MAX}),
    ("FailManyRequest.jobs", {"maxItems": limits.BATCH_JOBS_MAX}),
    ("FailRequest.retry_in_seconds", {"minimum": 0, "maximum": limits.RETRY_DELAY_SECONDS_MAX}),
]


@pytest.mark.parametrize(("where", "bounds"), BOUNDS, ids=[f"{where}-{'-'.join(b)}" for where, b in BOUNDS])
def test_a_bound_is_the_programs(contract, where, bounds):
    """A number in a schema is the one that limits.py has."""
    name, _, field = where.partition(".")
    schema = contract["components"]["schemas"][name]
    schema = schema["properties"][field] if field else schema
    assert {key: schema[key] for key in bounds} == bounds


def test_lists_have_the_programs_limits(contract):
    """`limit` has the default and the bound that limits.py has."""
    limit = contract["components"]["parameters"]["Limit"]["schema"]
    assert (limit["default"], limit["maximum"]) == (limits.LIST_LIMIT_DEFAULT, limits.LIST_LIMIT_MAX)


def test_states_events_and_causes_are_the_programs(contract):
    """The closed sets of words in the contract are those of the core."""
    schemas = contract["components"]["schemas"]
    assert schemas["State"]["enum"] == [state.value for state in State]
    assert set(schemas["StateCounts"]["properties"]) == {state.value for state in State}
    assert schemas["Event"]["properties"]["type"]["enum"] == list(EVENT_TYPES)
    assert schemas["JobDied"]["properties"]["cause"]["enum"] == [cause.value for cause in DeathCause]


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_an_events_data_has_the_fields_of_its_class(contract, name):
    """Each event's schema lists its class's fields, durations under their name on the wire, and requires them all."""
    durations = {"asked_delay": "asked_delay_seconds", "duration": "duration_seconds"}
    fields = [durations.get(field, field) for field in field_names(EVENT_TYPES[name])]
    schema = contract["components"]["schemas"][EVENT_TYPES[name].__name__]
    assert (list(schema["properties"]), schema["required"]) == (fields, fields)


@pytest.mark.parametrize("schema_name", ["RetryPolicy", "RetryPolicyRequest"])
def test_policies_are_the_registered_ones(contract, schema_name):
    """Every retry policy is in the contract, with its numbers and their defaults."""
    policies = {policy["title"]: policy for policy in contract["components"]["schemas"][schema_name]["oneOf"]}
    assert set(policies) == set(RetryPolicy.registry)
    for name, cls in RetryPolicy.registry.items():
        numbers = {key: value for key, value in policies[name]["properties"].items() if key != "type"}
        assert set(numbers) == set(cls().parameters())
        if schema_name == "RetryPolicyRequest":
            assert {key: value["default"] for key, value in numbers.items()} == cls().parameters()
