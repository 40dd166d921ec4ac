"""Points of a log: a position, or a time. The state at a time is that after all records that are not younger."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from attrs import frozen


@frozen
class Point:
    """A position or a time (microseconds since 1970 UTC); one of the two is None."""

    position: int | None = None
    time: int | None = None


class OutsideTheLog(Exception):
    """The log does not reach as far as the point. `text` says it, given how a time is written."""

    def __init__(self, words: str, *times: int) -> None:
        super().__init__(words)
        self._words, self._times = words, times

    def text(self, time_text: Callable[[int], str]) -> str:
        """The reason in words."""
        return self._words.format(*map(time_text, self._times))


def position_of(point: Point, size: int, time_of: Callable[[int], int], now: int) -> int:
    """The position a point stands for in a log of `size` records, whose times `time_of` tells by their positions.

    A time after the last record stands for that one: nothing came since. Refused are a time that is still to come, as
    the log may grow until then, and one before the first record, as there was nothing yet; so is every point of an
    empty log. Raises OutsideTheLog. Costs O(log size) looks at records.
    """
    if not size:
        raise OutsideTheLog("must be a point of the log, which is empty")
    if point.position is not None:
        if 1 <= point.position <= size:
            return point.position
        raise OutsideTheLog(f"must be a position from 1 to {size}: the log has no others")
    if point.time > max(now, time_of(size)):
        raise OutsideTheLog("must not be later than now, {}: the log may grow until then", now)
    position = bisect_right(range(1, size + 1), point.time, key=time_of)
    if not position:
        raise OutsideTheLog("must not be earlier than {}: the log begins then", time_of(1))
    return position
