"""Durations on the command line: 90s, 30m, 12h, 30d, 4w."""

from __future__ import annotations

import click

from eventjobs.domain.durations import age_of


class Duration(click.ParamType):
    """A number of seconds, minutes, hours, days or weeks, in microseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        age = age_of(str(value))
        if age is None:
            self.fail(f"{value!r} is not a duration such as 90s, 12h or 30d, of at most 100 years", param, ctx)
        return age


DURATION = Duration()
