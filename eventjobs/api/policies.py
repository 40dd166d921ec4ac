"""Retry policies as requests name them: {type, ...numbers}, the type in any letter case."""

from __future__ import annotations

import attrs

from eventjobs.api.faults import Unfit
from eventjobs.api.members import Members
from eventjobs.api.values import number
from eventjobs.domain.retry import DEFAULT_POLICY, RetryPolicy, policy_faults

FIELD = "retry_policy"


def read_policy(job: Members) -> RetryPolicy | None:
    """The job's policy, the default one when it names none; None after a fault."""
    policy = job.nested(FIELD)
    if policy is None:
        return job.read(FIELD, _no_object, DEFAULT_POLICY)
    named = policy.require("type", _policy_type)
    if named is None:
        return None
    numbers = {field.name: policy.read(field.name, number, field.default) for field in _numbers(named)}
    policy.end()
    if None in numbers.values():
        return None
    asked = named(**numbers)
    for field, message in policy_faults(asked):
        policy.fault(field, message)
    return asked


def _policy_type(value: object) -> type[RetryPolicy]:
    if type(value) is str and (found := RetryPolicy.registry.get(value.lower())) is not None:
        return found
    raise Unfit(f"must be one of {', '.join(RetryPolicy.registry)}")


def _numbers(policy: type[RetryPolicy]) -> list[attrs.Attribute]:
    return [field for field in attrs.fields(policy) if field.init]


def _no_object(value: object) -> RetryPolicy:
    raise Unfit("must be an object {type, ...}")
