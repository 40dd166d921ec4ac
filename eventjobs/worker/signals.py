"""Stopping on signals: the first asks, and gives the second one back its power to end the process at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT. The second is the system's: it ends the process, whatever that does.

    These are handlers of the interpreter and not of an event loop, so that they work while a handler blocks the
    loop. Outside the main thread, where there are no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        for number in NUMBERS:
            signal.signal(number, signal.SIG_DFL)
        stop()

    before = {number: signal.signal(number, first) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
