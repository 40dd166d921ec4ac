"""The simulated line of coordinators at one append lock does what follows from its rules by arithmetic."""

from __future__ import annotations

import pytest

from eventjobs.testing.fleet.line import Fleet, Lock, simulate

LOCK = Lock(fixed=0.002, each=0.000_1)


def test_a_lone_request_takes_one_turn():
    """Hardly any load on one coordinator: who asks waits for nobody."""
    found = simulate(LOCK, coordinators=1, requests_a_second=1, records=10, seconds=100)
    assert found.median == pytest.approx(LOCK.held(10))


def test_nobody_is_answered_sooner_than_a_turn_takes():
    fleet = Fleet(LOCK, coordinators=5, requests_a_second=300, records=10, seed=3)
    fleet.run(10)
    assert min(fleet.spent) >= LOCK.held(10) - 1e-9


def test_every_request_is_answered_once():
    """As many answers as requests, about as many as were asked for, each in one group."""
    fleet = Fleet(LOCK, coordinators=7, requests_a_second=500, records=3, seed=4)
    fleet.run(20)
    assert len(fleet.spent) == sum(fleet.groups)
    assert len(fleet.spent) == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize(("coordinators", "records_a_second"), [(20, 5_000), (60, 5_000), (20, 8_000)])
def test_busy_coordinators_take_turns_in_the_time_that_the_formula_gives(coordinators, records_a_second):
    """Each has something to write whenever its turn comes, so that a round is a turn of each."""
    fleet = Fleet(LOCK, coordinators, records_a_second / 5, records=5, seed=5)
    ended = fleet.run(60)
    simulated = ended / len(fleet.groups) * coordinators
    assert simulated == pytest.approx(LOCK.round_seconds(coordinators, records_a_second), rel=0.1)


def test_what_is_more_than_the_lock_carries_is_told():
    """From a load of one on the line grows without end; below it does not."""
    assert LOCK.load(9_000) < 1 < LOCK.load(11_000)
    assert LOCK.round_seconds(4, 11_000) == float("inf")
    assert simulate(LOCK, 4, 900, records=10).kept_up
    assert not simulate(LOCK, 4, 1_150, records=10).kept_up


def test_the_same_seed_gives_the_same_figures():
    first, again, other = (simulate(LOCK, 4, 500, records=10, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
