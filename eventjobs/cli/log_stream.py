"""Where log lines go: a thread writes them, so that neither a reader that stands still nor a full disk stops anybody.

Logging is for people who watch; the work goes on without them. What could not be written is counted, and told with
the next line that can be.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from io import RawIOBase

WAITING_BYTES_MAX = 4 << 20
"""Lines that wait to be written. What comes on top of them is lost."""
CLOSE_SECONDS = 1.0
"""How long the end of the process waits for lines to be written."""


class LineStream:
    """Takes whole lines, from any thread. Never raises for the sake of a line, and never waits for its reader."""

    def __init__(self, raw: RawIOBase, lost_line: Callable[[int], str | bytes]) -> None:
        """Writes to `raw`, which must not buffer. `lost_line` makes the line that tells how many were lost."""
        self._raw, self._lost_line = raw, lost_line
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # a line may come out of garbage collection, in the middle of another
        self._waiting_bytes = self._lost = 0
        self._torn = False
        self._thread = threading.Thread(target=self._run, name="eventjobs-log", daemon=True)
        self._thread.start()

    def write(self, text: str | bytes) -> None:
        """Have the line, with its newline, written when its turn comes."""
        line = _encoded(text)
        if not self._thread.is_alive():  # the process is about to end
            self._write_or_count(line)
            return
        with self._lock:
            if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                self._lost += 1
                return
            self._waiting_bytes += len(line)
        self._lines.put(line)

    def flush(self) -> None:
        """Nothing: what is taken is on its way."""

    def close(self) -> None:
        """Write what waits, for CLOSE_SECONDS at most."""
        self._lines.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write_or_count(line)
            with self._lock:
                self._waiting_bytes -= len(line)
        self._tell_lost()

    def _write_or_count(self, line: bytes) -> None:
        self._tell_lost()
        if not self._written(line):
            with self._lock:
                self._lost += 1

    def _tell_lost(self) -> None:
        lost = self._lost
        if lost and self._written(_encoded(self._lost_line(lost)) + b"\n"):
            with self._lock:
                self._lost -= lost

    def _written(self, line: bytes) -> bool:
        """Whether all of the line could be written. After a part of one the next begins on a line of its own."""
        whole = b"\n" + line if self._torn else line
        done = 0
        try:
            while done < len(whole):
                count = self._raw.write(whole[done:])
                if not count:  # a stream that does not wait has no room
                    break
                done += count
        except (OSError, ValueError):  # no reader, no space, closed: the caller counts the line
            pass
        if done:
            self._torn = done < len(whole)
        return done == len(whole)


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
