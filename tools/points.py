"""Points of a log for offline programs: how a command is told one, and which position it stands for."""

from __future__ import annotations

import time

import click

from eventjobs.api.faults import Unfit
from eventjobs.api.points import point
from eventjobs.api.wire_time import time_text
from eventjobs.domain.points import OutsideTheLog, Point, position_of
from eventjobs.store.contract import StoreError
from eventjobs.tools.source import Source


class PointType(click.ParamType):
    """A position of the log or a time, as `?at=` of the HTTP interface takes it."""

    name = "point"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Point:
        if isinstance(value, Point):
            return value
        try:
            return point(value)
        except Unfit as unfit:
            self.fail(str(unfit), param, ctx)


POINT = PointType()


class NoSuchPoint(StoreError):
    """The log does not reach as far as the point."""


def position_in(source: Source, wanted: Point) -> int:
    """The position that a point stands for in a log; see domain.points. Raises NoSuchPoint, and StoreError."""
    head = source.head()
    now = time.time_ns() // 1_000
    try:
        return position_of(wanted, head.size, lambda position: source.record(position).time, now)
    except OutsideTheLog as outside:
        raise NoSuchPoint(f"the point {outside.text(time_text)}") from outside
