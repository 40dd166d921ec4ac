"""How long the writer waits for a group to fill: for those it answered last, and not longer than pays."""

from __future__ import annotations

import pytest

from eventjobs.coordinator.writer import Patience


class Now:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def now() -> Now:
    return Now()


def take(patience: Patience, count: int) -> None:
    for _ in range(count):
        patience.took()


def test_a_lone_caller_is_never_kept_waiting(now):
    """One request at a time: each is committed at once, however long commits take."""
    patience = Patience(now)
    for _ in range(3):
        patience.took()
        assert patience.left() == 0
        patience.committed(1.0, waiting=0)


def test_two_halves_become_one_group(now):
    """Those who wait while a commit is on its way are expected together with those it answers."""
    patience = Patience(now)
    take(patience, 3)
    patience.committed(0.002, waiting=2)
    take(patience, 2)
    assert patience.left() == pytest.approx(0.001)
    take(patience, 3)
    assert patience.left() == 0


def test_it_waits_for_a_part_of_what_a_commit_costs_from_the_first_request_on(now):
    """The wait is counted from the group's first request, and a request that comes does not prolong it."""
    patience = Patience(now)
    take(patience, 5)
    patience.committed(0.002, waiting=0)
    now.time = 10.0
    take(patience, 1)
    now.time = 10.0004
    take(patience, 1)
    assert patience.left() == pytest.approx(0.0006)
    now.time = 10.002
    assert patience.left() == 0


def test_a_slow_disk_does_not_make_it_wait_without_end(now):
    """A commit of a second, as on a disk that hangs, is followed by a wait of milliseconds at most."""
    patience = Patience(now)
    take(patience, 5)
    patience.committed(1.0, waiting=0)
    take(patience, 1)
    assert patience.left() == pytest.approx(Patience.LONGEST_SECONDS)


def test_those_who_stay_away_are_waited_for_once(now):
    """When callers leave, one commit waits for them in vain; the next expects only who came."""
    patience = Patience(now)
    take(patience, 5)
    patience.committed(0.002, waiting=0)
    take(patience, 1)
    assert patience.left() > 0
    patience.committed(0.002, waiting=0)
    take(patience, 1)
    assert patience.left() == 0
