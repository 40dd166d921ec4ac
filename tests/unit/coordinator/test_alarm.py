"""The wake-up call: at its time by the coordinator's clock, once, and at no cost before."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator.alarm import Alarm
from eventjobs.testing import builders as b
from eventjobs.testing import virtual_time
from eventjobs.testing.virtual_time import LoopClock

LATE_MAX = b.seconds(1)
"""What a lease may be over before that is in the log."""


class PacedClock:
    """A clock that runs slower or faster than the loop's, as one does that is drawn towards a wall clock."""

    def __init__(self, pace: float) -> None:
        self.pace, self._loop = pace, asyncio.get_running_loop()
        self._now, self._last = float(b.START), self._loop.time()
        self.looks = 0

    def now(self) -> int:
        self.looks += 1
        loop = self._loop.time()
        self._now += (loop - self._last) * 1_000_000 * self.pace
        self._last = loop
        return int(self._now)


class Bell:
    """An alarm and the times at which it rang."""

    def __init__(self, clock=None) -> None:
        self.clock = clock or LoopClock(b.START)
        self.rang: list[int] = []
        self.alarm = Alarm(self.clock, self._ring)

    def _ring(self) -> None:
        self.rang.append(self.clock.now())


def test_it_rings_once_at_its_time():
    """Not before, and not again."""

    async def main() -> None:
        bell = Bell()
        bell.alarm.set(b.at(30))
        await asyncio.sleep(29.999_999)
        assert bell.rang == []
        await asyncio.sleep(100)
        assert bell.rang == [b.at(30)]

    virtual_time.run(main())


def test_the_earliest_time_counts():
    """An earlier time takes the place of a later one; a later one changes nothing."""

    async def main() -> None:
        bell = Bell()
        for time in (b.at(30), b.at(10), b.at(20), None):
            bell.alarm.set(time)
        await asyncio.sleep(100)
        assert bell.rang == [b.at(10)]

    virtual_time.run(main())


def test_it_can_be_set_while_it_rings():
    """What rings may set the next time, also one that has passed."""

    async def main() -> None:
        bell = Bell()
        times = [b.at(20), b.at(20) - 1, b.at(40)]

        def ring() -> None:
            bell.rang.append(bell.clock.now())
            alarm.set(times.pop(0) if times else None)

        alarm = Alarm(bell.clock, ring)
        alarm.set(b.at(10))
        await asyncio.sleep(100)
        assert bell.rang == [b.at(10), b.at(20), b.at(20.001), b.at(40)]

    virtual_time.run(main())


def test_a_time_that_has_passed_rings_soon_and_not_at_once():
    """The caller goes on first; the ring comes a moment later."""

    async def main() -> None:
        bell = Bell()
        bell.alarm.set(b.at(-100))
        assert bell.rang == []
        await asyncio.sleep(0.01)
        assert bell.rang == [b.at(0.001)]

    virtual_time.run(main())


def test_a_stopped_alarm_is_silent_and_can_be_set_again():
    """Stopping takes the time away."""

    async def main() -> None:
        bell = Bell()
        bell.alarm.set(b.at(10))
        bell.alarm.stop()
        bell.alarm.stop()
        await asyncio.sleep(20)
        assert bell.rang == []
        bell.alarm.set(b.at(50))
        await asyncio.sleep(100)
        assert bell.rang == [b.at(50)]

    virtual_time.run(main())


@pytest.mark.parametrize("seconds", [3_600, 86_400, 10 * 365 * 86_400])
def test_a_long_wait_ends_at_its_time(seconds):
    """Waits longer than any single timer are exact as well."""

    async def main() -> None:
        bell = Bell()
        bell.alarm.set(b.at(seconds))
        await asyncio.sleep(seconds + 10)
        assert bell.rang == [b.at(seconds)]

    virtual_time.run(main())


@pytest.mark.parametrize("pace", [0.5, 0.9, 1.0, 1.1, 1.5])
@pytest.mark.parametrize("seconds", [0.1, 1, 30, 3_600, 86_400])
def test_it_is_on_time_whatever_the_clocks_pace(pace, seconds):
    """With a clock at half or one and a half times the loop's pace the ring is never early, and late by a second at
    most; nor is the clock looked at all the time."""

    async def main() -> None:
        clock = PacedClock(pace)
        bell = Bell(clock)
        bell.alarm.set(b.at(seconds))
        await asyncio.sleep(seconds * 2 + 5)
        assert len(bell.rang) == 1
        assert b.at(seconds) <= bell.rang[0] <= b.at(seconds) + LATE_MAX
        assert clock.looks <= 60 + seconds / 60

    virtual_time.run(main())


def test_a_pace_that_changes_makes_it_no_later():
    """A clock that begins to hurry in the middle of a wait is met in time."""

    async def main() -> None:
        clock = PacedClock(0.5)
        bell = Bell(clock)
        bell.alarm.set(b.at(3_600))
        await asyncio.sleep(1_000)
        clock.now()
        clock.pace = 1.5
        await asyncio.sleep(10_000)
        assert b.at(3_600) <= bell.rang[0] <= b.at(3_600) + LATE_MAX

    virtual_time.run(main())
