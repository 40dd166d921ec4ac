"""Who is woken when a job becomes available: one for each job, the longest waiting first."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator.waiters import Waiter, Waiters
from eventjobs.testing import virtual_time

EMAIL, REPORT, OTHER = ("default", "email"), ("default", "report"), ("other", "email")


@pytest.fixture
def waiters() -> Waiters:
    return Waiters()


def waiting(waiters: Waiters, count: int, queues=None, kinds=None, worker="w") -> list[Waiter]:
    found = [Waiter(worker, queues, kinds) for _ in range(count)]
    for waiter in found:
        waiters.add(waiter)
    return found


def woken(*groups: list[Waiter]) -> list[list[bool]]:
    return [[waiter.woken_for is not None for waiter in group] for group in groups]


@pytest.mark.parametrize(
    ("queues", "kinds", "wanted"),
    [
        (None, None, {EMAIL, REPORT, OTHER}),
        (["default"], None, {EMAIL, REPORT}),
        (None, ["email"], {EMAIL, OTHER}),
        (["default", "more"], ["email", "more"], {EMAIL}),
        (["email"], ["default"], set()),
        ([], None, set()),
    ],
)
def test_a_waiter_wants_the_lanes_it_asked_for(queues, kinds, wanted):
    """Queue and kind must both be among those asked for; None is any."""
    waiter = Waiter("w", queues, kinds)
    assert {lane for lane in (EMAIL, REPORT, OTHER) if waiter.wants(lane)} == wanted


def test_one_job_wakes_one_waiter_the_longest_waiting_first(waiters):
    """As many are woken as there are jobs, in the order in which they came."""
    group = waiting(waiters, 4)
    waiters.offer({EMAIL: 1})
    assert woken(group) == [[True, False, False, False]]
    waiters.offer({EMAIL: 2})
    assert woken(group) == [[True, True, True, False]]


def test_those_who_do_not_want_it_are_passed_over(waiters):
    """A job of another lane wakes neither the first in line nor anyone else who could not take it."""
    reports, emails = waiting(waiters, 1, kinds=["report"]), waiting(waiters, 2, kinds=["email"])
    waiters.offer({EMAIL: 1, ("other", "report"): 0})
    assert woken(reports, emails) == [[False], [True, False]]
    waiters.offer({OTHER: 5})
    assert woken(reports, emails) == [[False], [True, True]]


def test_lanes_share_the_waiters(waiters):
    """Jobs of two lanes wake two waiters, although one of them could take either."""
    both, reports = waiting(waiters, 1), waiting(waiters, 1, kinds=["report"])
    waiters.offer({EMAIL: 1, REPORT: 1})
    assert woken(both, reports) == [[True], [True]]


def test_an_unused_wake_goes_to_the_next(waiters):
    """A waiter that leaves before it has tried passes its wake on, down the whole line."""
    first, second, third = waiting(waiters, 3)
    waiters.offer({EMAIL: 1})
    waiters.remove(first)
    assert woken([second, third]) == [[True, False]]
    waiters.remove(second)
    assert woken([third]) == [[True]]
    waiters.remove(third)


def test_an_unused_wake_skips_those_who_do_not_want_it(waiters):
    """It goes to the next who wants that lane, and nowhere when there is none."""
    (first,) = waiting(waiters, 1)
    reports, emails = waiting(waiters, 1, kinds=["report"]), waiting(waiters, 1, kinds=["email"])
    waiters.offer({EMAIL: 1})
    waiters.remove(first)
    assert woken(reports, emails) == [[False], [True]]
    waiters.remove(emails[0])
    assert woken(reports) == [[False]]


def test_a_used_wake_is_spent(waiters):
    """A waiter that tries covers its wake; when it leaves, nobody is woken for it."""
    first, second = waiting(waiters, 2)
    waiters.offer({EMAIL: 1})
    first.about_to_try()
    waiters.remove(first)
    assert woken([second]) == [[False]]


def test_a_wake_during_a_try_is_kept(waiters):
    """What becomes available while an attempt is under way wakes the waiter again."""
    (waiter,) = waiting(waiters, 1)
    waiters.offer({EMAIL: 1})
    waiter.about_to_try()
    waiters.offer({EMAIL: 1})

    async def main() -> None:
        assert await waiter.woken(10)

    virtual_time.run(main())


def test_an_unknown_number_of_jobs_wakes_all_who_want_them(waiters):
    """When lanes come due, everyone who wants one of them is woken, and nobody else."""
    any_, emails = waiting(waiters, 2), waiting(waiters, 2, kinds=["email"])
    reports = waiting(waiters, 2, kinds=["report"])
    waiters.offer_all([EMAIL, OTHER])
    assert woken(any_, emails, reports) == [[True, True], [True, True], [False, False]]


def test_waiting_ends_at_its_time():
    """A waiter nobody wakes waits as long as it was told to, and is not woken."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert not await Waiter("w", None, None).woken(20)
        assert loop.time() == began + 20

    virtual_time.run(main())


def test_a_wake_before_the_wait_is_not_lost(waiters):
    """A waiter that is woken before it waits does not wait."""

    async def main() -> None:
        (waiter,) = waiting(waiters, 1)
        waiters.offer({EMAIL: 1})
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await waiter.woken(20)
        assert loop.time() == began

    virtual_time.run(main())


def test_all_are_woken_at_the_end(waiters):
    """When waiting is over, everyone is woken, for no lane: there is nothing to hand on."""

    async def main() -> None:
        group = waiting(waiters, 3, kinds=["report"])
        waiters.wake_all()
        assert await asyncio.gather(*(waiter.woken(20) for waiter in group)) == [True] * 3
        waiters.remove(group[0])
        assert woken(group) == [[False] * 3]

    virtual_time.run(main())


def test_a_silent_worker_is_woken_when_nobody_else_waits(waiters):
    """Who let a lease run out is last in line for that job, however long it has waited, but not out of it."""
    silent, others = waiting(waiters, 1, worker="silent"), waiting(waiters, 2)
    waiters.offer({EMAIL: 1}, {"silent"})
    assert woken(silent, others) == [[False], [True, False]]
    waiters.offer({EMAIL: 2}, {"silent"})
    assert woken(silent, others) == [[True], [True, True]]
