"""The coordinator's clock under a wall clock that jumps: never backwards, never far from the pace of real time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.coordinator.clock import SlewedClock

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
WALL = 1_767_225_600 * SECOND


class Sources:
    """A wall clock that can be set, and a monotonic one that cannot. Nanoseconds."""

    def __init__(self) -> None:
        self.wall, self.monotonic = WALL, 12_345 * SECOND

    def clock(self, not_before: int = 0) -> SlewedClock:
        return SlewedClock(not_before, lambda: self.wall, lambda: self.monotonic)

    def pass_time(self, elapsed: int, jump: int = 0) -> None:
        self.monotonic += elapsed
        self.wall += elapsed + jump


@pytest.fixture
def sources() -> Sources:
    return Sources()


def test_it_starts_at_the_walls_time(sources):
    """With an older log the clock starts at the wall's time, in microseconds, and goes with it."""
    clock = sources.clock(not_before=WALL // 1_000 - 5)
    assert clock.now() == WALL // 1_000
    sources.pass_time(10 * SECOND)
    assert clock.now() == (WALL + 10 * SECOND) // 1_000


def test_it_starts_no_earlier_than_the_logs_newest_time(sources):
    """A wall clock that was set back before the start does not take the log's time back."""
    newest = (WALL + HOUR) // 1_000
    clock = sources.clock(not_before=newest)
    assert clock.now() == newest
    sources.pass_time(SECOND)
    assert clock.now() == newest + 500_000, "half the pace, until the wall has caught up"


def test_two_looks_at_one_moment_are_the_same(sources):
    """Time does not move by being looked at."""
    clock = sources.clock()
    sources.pass_time(0, jump=HOUR)
    assert clock.now() == clock.now() == WALL // 1_000


@pytest.mark.parametrize("jump", [-5 * HOUR, -HOUR, -SECOND, SECOND, HOUR, 5 * HOUR])
def test_a_jump_is_worked_off_in_twice_its_length(sources, jump):
    """After a jump of an hour either way the clock agrees with the wall within two hours, and stays there."""
    clock = sources.clock()
    sources.pass_time(0, jump)
    for _ in range(2 * 60 * 5):
        sources.pass_time(abs(jump) // (60 * 5))
        clock.now()
    assert abs(clock.now() - sources.wall // 1_000) <= 1
    sources.pass_time(SECOND)
    assert abs(clock.now() - sources.wall // 1_000) <= 1


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_jump_ends_no_lease_at_once(sources, jump):
    """In the thirty seconds after a jump the clock runs at least fifteen and at most forty-five."""
    clock = sources.clock()
    before = clock.now()
    sources.pass_time(30 * SECOND, jump)
    assert 15_000_000 <= clock.now() - before <= 45_000_000


@given(
    st.lists(st.tuples(st.integers(0, HOUR), st.just(0) | st.integers(-100 * HOUR, 100 * HOUR)), max_size=50),
    st.integers(0, 2 * WALL // 1_000),
)
def test_it_never_runs_backwards_and_keeps_its_pace(steps, not_before):
    """However the wall clock jumps, time does not decrease, and its pace stays between a half and one and a half."""
    sources = Sources()
    clock = sources.clock(not_before)
    first = last = clock.now()
    assert first >= not_before
    passed = 0
    for elapsed, jump in steps:
        sources.pass_time(elapsed, jump)
        passed += elapsed
        now = clock.now()
        assert now >= last
        assert elapsed // 2_000 - 1 <= now - last <= elapsed * 3 // 2_000 + 1
        last = now
    assert passed // 2_000 - len(steps) <= last - first <= passed * 3 // 2_000 + len(steps)


@given(st.integers(0, 5), st.integers(-3, 3))
def test_the_smallest_steps_do_not_run_backwards(elapsed, jump):
    """Rounding of a few nanoseconds never takes time back."""
    sources = Sources()
    clock = sources.clock()
    last = clock.now()
    for _ in range(5_000):
        sources.pass_time(elapsed, jump)
        now = clock.now()
        assert now >= last
        last = now
