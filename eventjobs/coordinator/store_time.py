"""The time by a shared store's clock, as far as it is known between two looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreTime:
    """What the store's clock says, going by the monotonic clock since it was last heard of. `monotonic` gives
    nanoseconds."""

    def __init__(self, heard: int, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic = monotonic
        self.hear(heard)

    def hear(self, said: int) -> None:
        """The store's clock said so (microseconds) just now."""
        self._ahead = said * 1_000 - self._monotonic()

    def wall(self) -> int:
        """Nanoseconds since 1970 UTC."""
        return self._monotonic() + self._ahead
