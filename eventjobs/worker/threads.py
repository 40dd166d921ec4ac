"""Threads for plain handlers.

They are daemon threads: one that cannot be told to stop does not keep the process from ending, as the threads of
concurrent.futures would.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from attrs import frozen


@frozen
class Ended:
    """How a call ended: what it returned, or what it raised."""

    value: Any
    error: BaseException | None


@frozen
class _Call:
    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Ended]


class Threads:
    """As many threads as there were calls at once; they are kept for the next. Belongs to one event loop.

    The caller bounds the number of calls at once.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._busy = 0
        self._size = 0

    def run(self, function: Callable[[Any], Any], argument: Any) -> asyncio.Future[Ended]:
        """How function(argument) ends, run in a thread with the caller's context variables."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        context = contextvars.copy_context()
        self._busy += 1
        if self._busy > self._size:
            self._size += 1
            name = f"eventjobs-handler-{self._size}"
            threading.Thread(target=_work, args=(self._calls, self._ended), name=name, daemon=True).start()
        self._calls.put(_Call(lambda: context.run(function, argument), loop, future))
        return future

    def close(self) -> None:
        """Let the threads end once their calls have."""
        for _ in range(self._size):
            self._calls.put(None)

    def _ended(self) -> None:
        self._busy -= 1


def _work(calls: queue.SimpleQueue[_Call | None], ended: Callable[[], None]) -> None:
    while (call := calls.get()) is not None:
        try:
            end = Ended(call.function(), None)
        except BaseException as error:  # noqa: BLE001 - it is told to the one who waits
            end = Ended(None, error)
        _tell(call, end, ended)
        del call, end  # nothing of a job is kept while the thread waits


def _tell(call: _Call, end: Ended, ended: Callable[[], None]) -> None:
    def settle() -> None:
        ended()
        if not call.future.done():  # done already: whoever waited was canceled
            call.future.set_result(end)

    try:
        call.loop.call_soon_threadsafe(settle)
    except RuntimeError:
        if not call.loop.is_closed():  # closed: nobody waits any more
            raise
