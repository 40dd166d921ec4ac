"""Durations as people write them: 90s, 30m, 12h, 1.5d, 4w."""

from __future__ import annotations

import re

from eventjobs.domain.limits import DAY_SECONDS, MICROSECONDS

AGE_SECONDS_MAX = 100 * 365.25 * DAY_SECONDS

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])").fullmatch


def age_of(text: str) -> int | None:
    """A number and a unit, in microseconds; None for any other text, and for more than a hundred years."""
    match = _AGE(text)
    seconds = None if match is None else float(match[1]) * _UNITS[match[2]]
    return None if seconds is None or seconds > AGE_SECONDS_MAX else round(seconds * MICROSECONDS)


def age_text(age: int) -> str:
    """Microseconds in the largest unit of which they are a whole number: 30d, 90s; the opposite of `age_of`."""
    for unit, seconds in reversed(_UNITS.items()):
        if age and age % (seconds * MICROSECONDS) == 0:
            return f"{age // (seconds * MICROSECONDS)}{unit}"
    return f"{age / MICROSECONDS:g}s"
