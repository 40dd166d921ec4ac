"""JSON as the coordinator has it, which takes and returns any number that JSON can write."""

from __future__ import annotations

import json
import math

DIGITS_MAX = 4_000
"""Python refuses to make integers of many more digits out of text."""


def loads(text: bytes | str) -> object:
    """The document. A number that Python cannot hold stays the text it is. Raises ValueError for what is no JSON."""
    return json.loads(text, parse_int=_integer, parse_float=_fraction, parse_constant=_refuse)


def _integer(literal: str) -> int | str:
    return int(literal) if len(literal) <= DIGITS_MAX else literal


def _fraction(literal: str) -> float | str:
    value = float(literal)
    return value if math.isfinite(value) else literal


def _refuse(literal: str) -> None:
    raise ValueError(f"{literal} is no JSON number")
