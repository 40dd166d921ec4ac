"""An event loop whose clock jumps to the next timer when there is nothing else to do.

Minutes of timeouts pass in milliseconds, and always in the same order. For code that keeps time by the loop
(asyncio.sleep, timeouts, loop.time()) and waits for nothing outside of it: no threads, no sockets.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

START_SECONDS = 1_000.0
"""The clock's first reading, so that nobody takes zero for "never"."""


class Deadlock(RuntimeError):
    """Every task waits for another: nothing is ready and no timer is set."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module's text."""

    def __init__(self) -> None:
        self._virtual_now = START_SECONDS
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since some moment, as far as the timers have taken it."""
        return self._virtual_now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._virtual_now += seconds


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for the next timer it moves the clock there."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        if not ready and timeout > 0:
            self._loop.advance(timeout)
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises Deadlock when it can never end."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
