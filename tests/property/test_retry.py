"""Retry policies stay in bounds for every number they may be given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.domain.limits import MAX_ATTEMPTS_MAX, RETRY_DELAY_SECONDS_MAX
from eventjobs.domain.retry import Constant, Exponential, Linear, RetryPolicy, policy_faults, policy_from

numbers = st.integers(0, RETRY_DELAY_SECONDS_MAX) | st.floats(0, RETRY_DELAY_SECONDS_MAX)
attempts = st.integers(1, MAX_ATTEMPTS_MAX)
rolls = st.floats(0, 1, exclude_max=True)


jitters = st.floats(0, 1)


@st.composite
def policies(draw, jitter: st.SearchStrategy = jitters) -> RetryPolicy:
    """Any sound policy."""
    base, max_delay = sorted([draw(numbers), draw(numbers)])
    cls = draw(st.sampled_from([Exponential, Linear, Constant]))
    return cls(base=base) if cls is Constant else cls(base=base, max_delay=max_delay, jitter=draw(jitter))


@given(policies(), attempts, rolls)
def test_a_delay_is_between_zero_and_the_longest(policy, attempt, roll):
    """0 <= delay <= max_delay (base, where there is none), up to the last attempt there can be."""
    delay = policy.delay_seconds(attempt, roll)
    assert math.isfinite(delay)
    assert 0 <= delay <= getattr(policy, "max_delay", policy.base)
    assert policy_faults(policy) == []


@given(policies(jitter=st.just(0)), attempts, rolls)
def test_without_jitter_waits_do_not_get_shorter_and_chance_has_no_say(policy, attempt, roll):
    """Monotone in the attempt; the roll makes no difference."""
    assert policy.delay_seconds(attempt, roll) <= policy.delay_seconds(attempt + 1, 0)
    assert policy.delay_seconds(attempt, roll) == policy.delay_seconds(attempt, 0)


@pytest.mark.parametrize("name", sorted(RetryPolicy.registry))
def test_the_last_attempt_of_the_largest_policy_does_not_overflow(name):
    """Attempt 1000 with the largest base there may be."""
    policy = RetryPolicy.registry[name](base=RETRY_DELAY_SECONDS_MAX)
    assert policy.delay_seconds(MAX_ATTEMPTS_MAX, 0) <= RETRY_DELAY_SECONDS_MAX


@given(policies(), attempts, rolls)
def test_jitter_takes_off_its_share_at_most(policy, attempt, roll):
    """delay = d * (1 - jitter * roll), so it lies between d * (1 - jitter) and d."""
    full, some = policy.delay_seconds(attempt, 0), policy.delay_seconds(attempt, roll)
    assert full * (1 - getattr(policy, "jitter", 0)) <= some <= full


@given(policies())
def test_a_policy_is_read_back_from_its_document(policy):
    """{type, ...numbers} stands for the policy."""
    assert policy_from({"type": policy.type, **policy.parameters()}) == policy


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (Exponential(base=-1), ["base"]),
        (Exponential(jitter=1.5), ["jitter"]),
        (Linear(base=301), ["base"]),
        (Linear(max_delay=RETRY_DELAY_SECONDS_MAX + 1), ["max_delay"]),
        (Constant(base=math.nan), ["base"]),
        (Exponential(base=math.inf, max_delay=math.inf, jitter=-1), ["base", "max_delay", "jitter"]),
    ],
    ids=str,
)
def test_every_number_out_of_bounds_is_named(policy, fields):
    """Faults come with their fields, all at once."""
    assert [field for field, _ in policy_faults(policy)] == fields
