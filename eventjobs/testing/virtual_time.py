"""An event loop whose clock jumps to the next timer when there is nothing else to do.

    async def main() -> None:
        await asyncio.sleep(3_600)

    virtual_time.run(main())  # returns at once

Hours of timeouts pass in milliseconds, and always in the same order. Time is exact: it moves by jumps alone, each to
the time of the next timer, and a timer runs when the clock shows its very time. While callbacks run, time stands.

Sockets are looked at and never waited for. Time stands still while a thread is at work for the loop: the loop knows of
`asyncio.to_thread` by itself, and is told of other threads by `stand_still_while`. When nothing is ready, no timer is
set and no thread is at work, nothing can ever happen again: that is a Deadlock, raised at once. So are tasks that keep
each other busy for ever while time stands.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from eventjobs.domain.limits import MICROSECONDS

T = TypeVar("T")

START_SECONDS = 1_000.0
"""The clock's first reading, so that nobody takes zero for "never"."""
THREAD_SECONDS_MAX = 30.0
"""How long (in real time) a thread may be at work while time stands still, before that counts as a deadlock."""
LOOK_SECONDS = 0.01
"""How often (in real time) it is asked whether threads are still at work; what they tell the loop wakes it at once."""
ROUNDS_AT_ONE_MOMENT_MAX = 50_000
"""Rounds of the loop in which time may stand."""


class Deadlock(RuntimeError):
    """Every task waits for another, or keeps another busy: time will never pass again."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module's text."""

    def __init__(self) -> None:
        self._outside: list[Callable[[], bool]] = []
        self._threads = 0
        super().__init__(_Selector(self))
        self._set_time(START_SECONDS)

    def time(self) -> float:
        """Seconds since some moment, as far as the timers have taken it."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass while a callback runs, as if it had blocked the loop."""
        self._set_time(self._now + seconds)

    def stand_still_while(self, at_work: Callable[[], bool]) -> None:
        """Let no time pass while `at_work` says that something outside of the loop is going to tell it something.

        It is asked on the loop, whenever there is nothing else to do, and must not turn false before the loop was told.
        """
        self._outside.append(at_work)

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[Any]:
        """As ever; time stands still until the call has returned."""
        future = super().run_in_executor(*arguments)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *arguments: Any) -> None:
        """As ever; a thread of its own waits for the others to end."""
        self._threads += 1
        try:
            await super().shutdown_default_executor(*arguments)
        finally:
            self._threads -= 1

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1

    def _something_outside(self) -> bool:
        return self._threads > 0 or any(at_work() for at_work in self._outside)

    def _jump(self) -> None:
        """To the next timer, which exists. A cancelled one is never the next: the loop drops those at its head."""
        self._set_time(max(self._now, self._scheduled[0].when()))

    def _set_time(self, now: float) -> None:
        self._now = now
        self._clock_resolution = math.ulp(now)  # the loop runs timers that are due within it: just those of this moment


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for the next timer it has the clock jump there."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop
        self._moment, self._rounds = 0.0, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._count_round()
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop._something_outside():
            return self._wait_outside()
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self._loop._jump()
        return ready

    def _count_round(self) -> None:
        if self._loop.time() != self._moment:
            self._moment, self._rounds = self._loop.time(), 0
        self._rounds += 1
        if self._rounds > ROUNDS_AT_ONE_MOMENT_MAX:
            raise Deadlock(f"tasks have kept each other busy for {ROUNDS_AT_ONE_MOMENT_MAX} rounds while time stood")

    def _wait_outside(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Until the loop is told something, or nobody is at work any more."""
        end = time.monotonic() + THREAD_SECONDS_MAX
        while True:
            ready = super().select(LOOK_SECONDS)
            if ready or not self._loop._something_outside():
                return ready
            if time.monotonic() > end:
                raise Deadlock(f"a thread has been at work for {THREAD_SECONDS_MAX:g} s of real time")


class LoopClock:
    """A clock in microseconds, as the coordinator needs one: it shows `start` first and goes with the loop."""

    def __init__(self, start: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._start, self._started = start, self._loop.time()

    def now(self) -> int:
        """`start` and what has passed since."""
        return self._start + round((self._loop.time() - self._started) * MICROSECONDS)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises Deadlock when it can never end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
