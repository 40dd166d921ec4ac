"""The journal of a run: everything that happened, line by line. Its digest tells whether two runs were the same."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable

TAIL_LINES = 400


class Journal:
    """Takes notes; keeps the last ones, or all with `keep_all`. `seen` counts what happened, by sort."""

    def __init__(self, elapsed: Callable[[], float], keep_all: bool = False) -> None:
        self._elapsed = elapsed
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=None if keep_all else TAIL_LINES)
        self.seen: Counter[str] = Counter()
        self._closed = False

    def note(self, who: str, what: str, sort: str | None = None) -> None:
        """Take note of something that happens now, and count its sort if it has one."""
        if self._closed:
            return
        line = f"{self._elapsed():11.6f} {who:<13} {what}"
        self._hash.update(line.encode())
        self._lines.append(line)
        if sort is not None:
            self.seen[sort] += 1

    def close(self) -> None:
        """Whatever is noted from now on has no meaning, and is left out."""
        self._closed = True

    @property
    def digest(self) -> str:
        """What stands for all lines so far."""
        return self._hash.hexdigest()

    @property
    def lines(self) -> list[str]:
        """The lines that are kept, oldest first."""
        return list(self._lines)
