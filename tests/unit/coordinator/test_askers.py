"""Who asked for jobs lately is remembered for minutes, and no more of it than memory has room for."""

from __future__ import annotations

from eventjobs.coordinator import askers
from eventjobs.coordinator.askers import Asked, Askers
from eventjobs.domain.limits import MICROSECONDS


class HandClock:
    time = 1_000 * MICROSECONDS

    def now(self) -> int:
        return self.time


def test_each_request_counts_once_with_its_latest_time():
    """A worker that asks again for the same is one line; for something else, another."""
    clock = HandClock()
    found = Askers(clock.now)
    found.note("a", ["q"], None)
    clock.time += 1
    found.note("b", None, ["k"])
    clock.time += 1
    found.note("a", ["q"], None)
    assert found.lately() == [Asked("a", ("q",), None, clock.time), Asked("b", None, ("k",), clock.time - 1)]
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
