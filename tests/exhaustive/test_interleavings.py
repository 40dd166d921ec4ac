"""Every interleaving in a small scope, under the production rules: no promise is broken, and no job is stuck."""

from __future__ import annotations

import pytest

from eventjobs.testing.explore import explore, run_dry
from eventjobs.testing.network_world import NetworkWorld, Scope
from eventjobs.testing.small_world import AnyoneWorld
from eventjobs.testing.tracked_job import Rules

ANYONE = [  # max_attempts, lease_ticks, tokens, states at least, depth at least
    (1, 1, 3, 25, 6),
    (2, 2, 3, 50, 9),
    (3, 3, 8, 222, 21),
]
QUICK = [  # max_attempts, scope, states at least, depth at least
    (2, Scope(workers=2, jobs=1, tokens=3, in_flight=2), 35_000, 19),
    (1, Scope(workers=2, jobs=2, tokens=1, in_flight=1), 10_000, 14),
    (2, Scope(workers=3, jobs=1, tokens=2, in_flight=2), 4_000, 14),
]
DEEP = [
    (2, Scope(workers=2, jobs=1, tokens=3, in_flight=3), 87_000, 20),
    (3, Scope(workers=2, jobs=1, tokens=4, in_flight=2), 160_000, 23),
    (2, Scope(workers=3, jobs=1, tokens=3, in_flight=2), 75_000, 21),
    (1, Scope(workers=2, jobs=2, tokens=2, in_flight=1), 160_000, 24),
    (1, Scope(workers=2, jobs=2, tokens=2, in_flight=2), 1_100_000, 25),
]


def check(world, name, states_min, depth_min, saw):
    explored = explore(world)
    assert explored.counter_example is None, str(explored.counter_example)
    states, depth = explored.states, explored.depth
    assert states >= states_min and depth >= depth_min, "the search saw less than it once did"
    calm, stuck = run_dry(world, explored)
    assert stuck is None, str(stuck)
    saw(
        f"{name}: {states:,} states, {explored.moves:,} moves, depth {depth}; "
        f"once faults end {calm:,} states, all of which lead to an end"
    )


def check_network(max_attempts, scope, states_min, depth_min, saw):
    world = NetworkWorld(Rules(max_attempts), scope)
    check(world, f"network, max_attempts={max_attempts}, {scope}", states_min, depth_min, saw)


@pytest.mark.parametrize(("max_attempts", "lease_ticks", "tokens", "states", "depth"), ANYONE)
def test_anyone_may_ask_anything(max_attempts, lease_ticks, tokens, states, depth, saw):
    """Whatever is asked of a job by whomever, with any token granted or guessed, in any order, no promise breaks."""
    world = AnyoneWorld(Rules(max_attempts, lease_ticks), tokens)
    check(world, f"anyone, max_attempts={max_attempts}, tokens={tokens}", states, depth, saw)


@pytest.mark.parametrize(("max_attempts", "scope", "states", "depth"), QUICK, ids=str)
def test_requests_late_doubled_reordered_or_lost(max_attempts, scope, states, depth, saw):
    """Workers that crash, requests late, twice, out of order or lost: no promise breaks, no job is stuck."""
    check_network(max_attempts, scope, states, depth, saw)


@pytest.mark.parametrize(("max_attempts", "scope", "states", "depth"), DEEP, ids=str)
def test_the_same_in_a_larger_scope(max_attempts, scope, states, depth, deep, saw):
    """The same with more requests under way, more leases, more workers and two jobs."""
    if not deep:
        pytest.skip("EVENTJOBS_PROFILE=deep explores larger scopes")
    check_network(max_attempts, scope, states, depth, saw)
