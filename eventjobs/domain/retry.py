"""Retry policies: how long a failed attempt waits for the next one.

A policy is one small class registered under its name; adding one touches this file alone. Times are in seconds,
as on the wire. `0 <= base <= max_delay <= 7 days` holds for every policy (checked where requests come in).
"""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar

import attrs
from attrs import frozen

from eventjobs.domain.limits import RETRY_DELAY_SECONDS_MAX


class RetryPolicy:
    """What a policy offers. Subclasses are frozen attrs classes whose first field `type` is their name."""

    registry: ClassVar[dict[str, type[RetryPolicy]]] = {}
    type: str

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__name__.lower()
        RetryPolicy.registry[name] = cls  # attrs builds the slotted class anew: the last registration is the one used

    def delay_seconds(self, attempt: int, roll: float) -> float:
        """Seconds to wait after attempt number `attempt` (from 1) failed; `roll` is a draw from [0, 1)."""
        raise TypeError(f"{type(self).__name__} has no delay rule")

    def parameters(self) -> dict[str, float]:
        """The policy's numbers by name, without its type."""
        return {name: getattr(self, name) for name in _names_of_numbers(type(self))}


@cache
def _names_of_numbers(policy: type[RetryPolicy]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(policy) if field.name != "type")


@frozen
class Exponential(RetryPolicy):
    """d = min(max_delay, base * 2**(attempt-1)); the delay is d * (1 - jitter * roll)."""

    type: str = attrs.field(default="exponential", init=False)
    base: float = 1
    max_delay: float = 300
    jitter: float = 0.5

    def delay_seconds(self, attempt: int, roll: float) -> float:
        return min(self.max_delay, math.ldexp(self.base, attempt - 1)) * (1 - self.jitter * roll)


@frozen
class Linear(RetryPolicy):
    """d = min(max_delay, base * attempt); the delay is d * (1 - jitter * roll)."""

    type: str = attrs.field(default="linear", init=False)
    base: float = 1
    max_delay: float = 300
    jitter: float = 0

    def delay_seconds(self, attempt: int, roll: float) -> float:
        return min(self.max_delay, self.base * attempt) * (1 - self.jitter * roll)


@frozen
class Constant(RetryPolicy):
    """The delay is always `base`."""

    type: str = attrs.field(default="constant", init=False)
    base: float = 1

    def delay_seconds(self, attempt: int, roll: float) -> float:
        return self.base


DEFAULT_POLICY = Exponential()


def policy_from(document: dict) -> RetryPolicy:
    """The policy a stored document {type, ...numbers} stands for. Raises KeyError or TypeError for a foreign one."""
    numbers = dict(document)
    return RetryPolicy.registry[numbers.pop("type")](**numbers)


def policy_faults(policy: RetryPolicy) -> list[tuple[str, str]]:
    """(field, message) for each number of the policy that is out of bounds; empty when it is sound."""
    faults = []
    for name, value in policy.parameters().items():
        bound = 1 if name == "jitter" else RETRY_DELAY_SECONDS_MAX
        if not (0 <= value <= bound):
            faults.append((name, f"must be between 0 and {bound:g}"))
    longest = getattr(policy, "max_delay", None)
    if not faults and longest is not None and policy.base > longest:
        faults.append(("base", "must not be above max_delay"))
    return faults
