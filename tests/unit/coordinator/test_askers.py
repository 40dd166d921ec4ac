"""Who asked for jobs lately is remembered for minutes, and no more of it than memory has room for; who is gone, and
who has no room for more jobs, is told from who waits."""

from __future__ import annotations

from types import SimpleNamespace

from eventjobs.coordinator import askers
from eventjobs.coordinator.askers import Asked, Askers
from eventjobs.domain.job import Lease
from eventjobs.domain.limits import MICROSECONDS, NO_KIND


class HandClock:
    time = 1_000 * MICROSECONDS

    def now(self) -> int:
        return self.time


def held_until(time: int) -> SimpleNamespace:
    """A job that the worker `a` holds."""
    return SimpleNamespace(lease=Lease(worker="a", expires_at=time, duration=30, leased_at=0))


def test_a_newer_request_of_a_worker_replaces_the_older_one():
    """Whatever it asked for before, it does not any more."""
    clock = HandClock()
    found = Askers(clock.now)
    found.note("a", None, None)
    clock.time += 1
    found.note("b", None, ["k"])
    clock.time += 1
    now = clock.time
    found.note("a", ["q"], None, 7)
    assert found.lately() == [Asked("a", ("q",), None, now, now + 7), Asked("b", None, ("k",), now - 1, now - 1)]
    assert [each.wants(("q", "x")) for each in found.lately()] == [True, False]
    assert [each.wants(("r", "k")) for each in found.lately()] == [False, True]


def test_what_is_old_is_forgotten():
    """After five minutes, and not before; `since` tells how far back it is known."""
    clock = HandClock()
    found = Askers(clock.now)
    began = clock.time
    found.note("a", None, None)
    clock.time += askers.REMEMBERED_SECONDS * MICROSECONDS
    assert len(found.lately()) == 1 and found.since == began
    clock.time += 1
    assert found.lately() == [] and found.since == began + 1


def test_memory_is_bounded(monkeypatch):
    """Of too many, the oldest are forgotten."""
    monkeypatch.setattr(askers, "REMEMBERED_MAX", 3)
    found = Askers(HandClock().now)
    for name in "abcad":
        found.note(name, None, None)
    assert [each.worker for each in found.lately()] == ["d", "a", "c"]


def test_a_worker_is_there_until_its_request_is_over_and_a_moment_longer():
    """For the time that it waits for jobs and a pause, and not as long as it is remembered."""
    clock = HandClock()
    found = Askers(clock.now)
    found.note("a", None, None, 20 * MICROSECONDS)
    clock.time += (20 + askers.PRESENT_SECONDS) * MICROSECONDS
    assert [each.present(clock.time) for each in found.lately()] == [True]
    clock.time += 1
    assert [each.present(clock.time) for each in found.lately()] == [False]


def test_a_worker_that_says_goodbye_is_not_counted():
    """Its last request, for what an earlier one was granted, is for no jobs."""
    found = Askers(HandClock().now)
    found.note("a", ["q"], ["k"])
    found.note("b", None, None)
    found.note("a", ["q"], (NO_KIND,))
    assert [each.worker for each in found.lately()] == ["b"]


def test_a_full_worker_is_neither_waiting_nor_gone():
    """As long as the jobs that it was given are held, by renewals too; once one ends it asks again."""
    clock = HandClock()
    found = Askers(clock.now)
    found.note("a", None, None)
    clock.time += MICROSECONDS
    held = held_until(clock.time + 9)
    found.filled("a", [held])
    (asked,) = found.lately()
    assert (asked.present(clock.time), asked.full(clock.time), asked.full(clock.time + 9)) == (False, True, False)
    clock.time += askers.REMEMBERED_SECONDS * MICROSECONDS
    renewed = held_until(clock.time + 5)
    found.saw([(held, None, renewed)], ())
    (asked,) = found.lately()
    assert (asked.full(clock.time), asked.full(clock.time + 5)) == (True, False)
    found.saw([(renewed, None, SimpleNamespace(lease=None))], ())
    assert found.lately() == []


def test_a_worker_whose_leases_ran_out_is_not_about_to_ask():
    """It was full, and did not renew: it seems gone at once. When it asks again, it is there."""
    clock = HandClock()
    found = Askers(clock.now)
    found.note("a", None, None)
    held = held_until(clock.time + 5)
    found.filled("a", [held])
    clock.time += 5
    found.saw([(held, None, SimpleNamespace(lease=None))], {"a"})
    (asked,) = found.lately()
    assert (asked.present(clock.time), asked.full(clock.time)) == (False, False)
    found.note("a", None, None)
    assert [each.present(clock.time) for each in found.lately()] == [True]
