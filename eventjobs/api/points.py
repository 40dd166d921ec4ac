"""Points of the past: a position of the log, or a time, which stands for all records that are not younger."""

from __future__ import annotations

from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.query import Query
from eventjobs.api.values import digits
from eventjobs.api.view import View
from eventjobs.api.wire_time import moment, time_text
from eventjobs.domain.limits import TOKEN_MAX
from eventjobs.domain.points import OutsideTheLog, Point, position_of

PARAMETER = "at"
_POSITION = digits(1, TOKEN_MAX)


def point(value: object) -> Point:
    """A position in decimal digits or an RFC 3339 time."""
    if type(value) is str and value.isdecimal():
        return Point(position=_POSITION(value))
    try:
        return Point(time=moment(value))
    except Unfit as unfit:
        raise Unfit(f"must be a position of the log, or a time: {str(unfit).removeprefix('must be ')}") from None


def read_point(query: Query) -> Point | None:
    """The point that a request asks for; None when it asks for none, or after a fault."""
    return query.read(PARAMETER, point)


def position_at(view: View, wanted: Point, now: int) -> int:
    """The position a point stands for. Raises Refused when the log does not reach so far, in either direction."""
    try:
        return position_of(wanted, view.head().size, lambda position: view.record(position).time, now)
    except OutsideTheLog as outside:
        faults = Faults()
        faults.add(PARAMETER, outside.text(time_text))
        raise faults.refusal() from None
