"""Stopping on signals: the first asks for an end in good order, the second ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal

from eventjobs.cli import exits


class StopSignals:
    """SIGTERM and SIGINT of the running loop. `asked` is set by the first; the second exits with INTERRUPTED."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        if self.asked.is_set():
            os._exit(exits.INTERRUPTED)
        self.asked.set()
