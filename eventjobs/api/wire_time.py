"""Times and durations as the wire has them: RFC 3339 text with microseconds and Z; seconds as numbers.

Inside, both are integer microseconds (times since 1970 UTC).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from eventjobs.api.faults import Unfit
from eventjobs.domain.limits import MICROSECONDS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_TIMES_REMEMBERED = 4_096
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
).fullmatch


@lru_cache(_TIMES_REMEMBERED)
def time_text(time: int) -> str:
    """A time as `2026-01-31T08:00:00.000000Z`."""
    second, microsecond = divmod(time, MICROSECONDS)
    return f"{_second_text(second)}.{microsecond:06d}Z"


@lru_cache(_TIMES_REMEMBERED)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat()[: len("2026-01-31T08:00:00")]


def seconds(duration: int) -> float:
    """A duration in seconds."""
    return duration / MICROSECONDS


def moment(value: object) -> int:
    """The time an RFC 3339 text stands for; digits beyond the microsecond are of no effect. Raises Unfit."""
    if type(value) is not str or (parts := _RFC_3339(value)) is None:
        raise Unfit("must be an RFC 3339 time that names its offset, like 2026-01-31T08:00:00Z")
    date, clock, fraction, offset = parts.groups()
    try:
        zone = "+00:00" if offset in "Zz" else offset
        time = (datetime.fromisoformat(f"{date}T{clock}{(fraction or '.')[:7]:0<7}{zone}") - _EPOCH) // _MICROSECOND
    except ValueError:
        raise Unfit("must be a time that exists; this one is in no calendar") from None
    if not _EARLIEST <= time <= _LATEST:
        raise Unfit("must lie in the years 1 to 9999 (UTC)")
    return time
