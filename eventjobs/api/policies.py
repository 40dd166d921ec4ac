"""Retry policies as requests name them: {type, ...numbers}, the type in any letter case."""

from __future__ import annotations

import attrs

from eventjobs.api.faults import Unfit
from eventjobs.api.members import Members
from eventjobs.api.values import number
from eventjobs.domain.retry import DEFAULT_POLICY, RetryPolicy, policy_faults

FIELD = "retry_policy"


def read_policy(job: Members) -> RetryPolicy | None:
    """The job's policy, the default one when it names none; None or any other one after a fault."""
    policy = job.nested(FIELD)
    if policy is None:
        return job.read(FIELD, _no_object, DEFAULT_POLICY)
    named = policy.require("type", _policy_type)
    fields = _numbers(*RetryPolicy.registry.values()) if named is None else _numbers(named)
    numbers = {field: policy.read(field, number, default) for field, default in fields.items()}
    policy.end()
    if named is None:
        return None
    sound = {field: value for field, value in numbers.items() if value is not None}
    asked = named(**sound)
    for field, message in policy_faults(asked):
        if field in sound:
            policy.fault(field, message)
    return asked


def _policy_type(value: object) -> type[RetryPolicy]:
    if type(value) is str and (found := RetryPolicy.registry.get(value.lower())) is not None:
        return found
    raise Unfit(f"must be one of {', '.join(RetryPolicy.registry)}")


def _numbers(*policies: type[RetryPolicy]) -> dict[str, float]:
    """The numbers these policies have, and their defaults."""
    return {field.name: field.default for policy in policies for field in attrs.fields(policy) if field.init}


def _no_object(value: object) -> RetryPolicy:
    raise Unfit("must be an object {type, ...}")
