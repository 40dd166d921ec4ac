"""Durations on the command line: 90s, 30m, 12h, 30d; and what was then, seen from now."""

from __future__ import annotations

import re

import click

from eventjobs.domain.limits import MICROSECONDS

_DURATION = re.compile(r"(\d+)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Duration(click.ParamType):
    """A whole number of seconds, minutes, hours, days or weeks, in microseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 12h, 30d or 4w", param, ctx)
        return int(match[1]) * _SECONDS[match[2].lower()] * MICROSECONDS


DURATION = Duration()
