"""What single values of a request must be. A check takes what was sent and gives the value meant, or raises Unfit.

A JSON value arrives as bool, int, float or str; a list or an object, which no check takes, as UNREADABLE.
A boolean is no integer, and neither is 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from eventjobs.api.faults import Unfit
from eventjobs.domain.limits import MICROSECONDS, NAME_LENGTH_MAX, REASON_LENGTH_MAX, TOKEN_MAX

T = TypeVar("T")
Check = Callable[[object], T]

UNREADABLE = object()

_NAME = re.compile(rf"[A-Za-z0-9._:/@-]{{1,{NAME_LENGTH_MAX}}}").fullmatch
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch
_DIGITS = re.compile(r"[0-9]{1,19}").fullmatch


def name(value: object) -> str:
    """A kind or a queue."""
    if type(value) is str and _NAME(value):
        return value
    raise Unfit(f"must be 1 to {NAME_LENGTH_MAX} ASCII letters, digits and . _ : / @ -")


def printable(longest: int) -> Check[str]:
    """A text of 1 to `longest` printable characters."""

    def check(value: object) -> str:
        if type(value) is str and 1 <= len(value) <= longest and value.isprintable():
            return value
        raise Unfit(f"must be 1 to {longest} printable characters")

    return check


def printable_ascii(longest: int) -> Check[str]:
    """A text of 1 to `longest` printable ASCII characters."""

    def check(value: object) -> str:
        if type(value) is str and 1 <= len(value) <= longest and value.isascii() and value.isprintable():
            return value
        raise Unfit(f"must be 1 to {longest} printable ASCII characters")

    return check


def reason(value: object) -> str:
    """Why a job is canceled: printable characters and white space."""
    if type(value) is str and len(value) <= REASON_LENGTH_MAX and all(c.isprintable() or c.isspace() for c in value):
        return value
    raise Unfit(f"must be a text of at most {REASON_LENGTH_MAX} characters, printable or white space")


def text(value: object) -> str:
    """Any text."""
    if type(value) is str:
        return value
    raise Unfit("must be a text")


def flag(value: object) -> bool:
    """A boolean."""
    if type(value) is bool:
        return value
    raise Unfit("must be true or false")


def integer(low: int, high: int) -> Check[int]:
    """An integer within the bounds, both included."""

    def check(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise Unfit(f"must be an integer from {low} to {high}")

    return check


def token(value: object) -> int:
    """A lease token: any integer from 0. One that no lease ever had is well-formed, and stale."""
    if type(value) is int and value >= 0:
        return value
    raise Unfit("must be an integer of 0 or more")


def number(value: object) -> float:
    """An integer or a fraction, as it was sent."""
    if type(value) is int or type(value) is float:
        return value
    raise Unfit("must be a number")


def duration(low: float, high: float) -> Check[int]:
    """Seconds within the bounds, both included, as microseconds."""

    def check(value: object) -> int:
        if (type(value) is int or type(value) is float) and low <= value <= high:
            return round(value * MICROSECONDS)
        raise Unfit(f"must be a number of seconds from {low:.15g} to {high:.15g}")

    return check


def digits(low: int, high: int) -> Check[int]:
    """An integer written in decimal digits, as query and header have it, within the bounds."""

    def check(value: object) -> int:
        if type(value) is str and _DIGITS(value) and low <= int(value) <= high:
            return int(value)
        raise Unfit(f"must be an integer from {low} to {high}")

    return check


def one_of(enumeration: type[T]) -> Check[T]:
    """A member of a StrEnum, by its text."""
    members = {member.value: member for member in enumeration}

    def check(value: object) -> T:
        if type(value) is str and value in members:
            return members[value]
        raise Unfit(f"must be one of {', '.join(members)}")

    return check


def job_id(value: object) -> str:
    """A UUID as text, in canonical form."""
    if type(value) is str and _UUID(value):
        return value.lower()
    raise Unfit("must be a UUID")


POSITION = digits(0, TOKEN_MAX)
