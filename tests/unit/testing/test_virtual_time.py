"""The loop whose time jumps: exact, in order, patient with threads, and quick to say that nothing can happen."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.testing import builders as b
from eventjobs.testing import virtual_time
from eventjobs.testing.virtual_time import START_SECONDS, Deadlock, LoopClock


def test_hours_pass_at_once():
    """Sleeping for a year takes no real time and exactly a year of the loop's."""

    async def main() -> float:
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time()

    before = time.monotonic()
    assert virtual_time.run(main()) == START_SECONDS + 365 * 86_400
    assert time.monotonic() - before < 10


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20))
def test_timers_run_at_their_very_time_and_in_order(delays):
    """Each timer sees exactly the time it was set for; none is early, none late, whatever the distances."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ran: list[float] = []
        handles = [loop.call_later(delay, lambda: ran.append(loop.time())) for delay in delays]
        await asyncio.sleep(max(delays))
        await asyncio.sleep(0)
        assert ran == sorted(handle.when() for handle in handles)

    virtual_time.run(main())


def test_neighbouring_times_are_told_apart():
    """Two timers a rounding step apart run one after the other, each at its own time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        first = loop.time() + 1e8
        ran: list[float] = []
        for when in (math.nextafter(first, math.inf), first):
            loop.call_at(when, lambda: ran.append(loop.time()))
        await asyncio.sleep(2e8)
        assert ran == [first, math.nextafter(first, math.inf)]

    virtual_time.run(main())


def test_time_stands_while_something_is_ready():
    """As long as tasks have work, no timer runs."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        fired: list[None] = []
        loop.call_later(1e-6, fired.append, None)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert (fired, loop.time()) == ([], START_SECONDS)

    virtual_time.run(main())


def test_a_cancelled_timer_moves_no_time():
    """Time jumps to timers that will run, not to those that were cancelled."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, lambda: None).cancel()
        await asyncio.sleep(10)
        assert loop.time() == START_SECONDS + 10

    virtual_time.run(main())


def test_timeouts_are_exact():
    """A timeout of a wait that never ends comes at its time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await loop.create_future()
        assert loop.time() == START_SECONDS + 60

    virtual_time.run(main())


def test_a_blocked_loop_is_late():
    """Time that a callback takes makes timers late, as it would be."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        loop.call_later(1, lambda: seen.append(loop.time()))
        loop.advance(3)
        await asyncio.sleep(1)
        assert seen == [START_SECONDS + 3]
        assert loop.time() == START_SECONDS + 4

    virtual_time.run(main())


def test_waiting_for_nothing_is_told_at_once():
    """A task that waits for what nobody will do is a deadlock, and no test that hangs."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="nothing is ready"):
        virtual_time.run(main())


def test_tasks_that_keep_each_other_busy_are_told(monkeypatch):
    """Work that never ends and lets no time pass is a deadlock as well, and no test that hangs."""
    monkeypatch.setattr(virtual_time, "ROUNDS_AT_ONE_MOMENT_MAX", 1_000)

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="kept each other busy for 1000 rounds"):
        virtual_time.run(main())


def test_time_stands_while_a_thread_is_at_work():
    """A call in a thread takes no time, however long it takes: a timer does not overtake it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate = threading.Event()
        fired: list[None] = []
        loop.call_later(0.001, fired.append, None)
        opener = threading.Timer(0.05, gate.set)
        opener.start()
        await asyncio.to_thread(gate.wait)
        opener.join()
        assert (fired, loop.time()) == ([], START_SECONDS)

    virtual_time.run(main())


def test_time_stands_while_it_is_asked_to():
    """A thread the loop does not know of is waited for while it is said to be at work."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        loop.stand_still_while(lambda: not told.done())
        thread = threading.Timer(0.05, loop.call_soon_threadsafe, [told.set_result, "done"])
        thread.start()
        async with asyncio.timeout(0.001):
            assert await told == "done"
        thread.join()
        assert loop.time() == START_SECONDS
        await asyncio.sleep(5)
        assert loop.time() == START_SECONDS + 5

    virtual_time.run(main())


def test_a_thread_that_never_ends_is_a_deadlock(monkeypatch):
    """Standing still has an end."""
    monkeypatch.setattr(virtual_time, "THREAD_SECONDS_MAX", 0.05)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.stand_still_while(lambda: True)
        await loop.create_future()

    with pytest.raises(Deadlock, match="a thread has been at work"):
        virtual_time.run(main())


def test_the_clock_goes_with_the_loop():
    """Microseconds are whole and exact, days later too."""

    async def main() -> None:
        clock = LoopClock(b.START)
        assert clock.now() == b.START
        await asyncio.sleep(0.000001)
        assert clock.now() == b.START + 1
        await asyncio.sleep(30 * 86_400)
        assert clock.now() == b.START + 1 + b.seconds(30 * 86_400)

    virtual_time.run(main())


def test_two_runs_are_the_same_run():
    """Tasks that wake at the same moments do so in the same order each time."""

    async def main() -> list[tuple[float, int]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[float, int]] = []

        async def walk(number: int) -> None:
            for _ in range(20):
                await asyncio.sleep((number % 3 + 1) * 0.1)
                seen.append((loop.time(), number))

        await asyncio.gather(*map(walk, range(9)))
        return seen

    assert virtual_time.run(main()) == virtual_time.run(main())
