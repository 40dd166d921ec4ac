"""How deep a JSON text is nested, without parsing it."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))


def deeper_than(limit: int, text: bytes) -> bool:
    """Whether the value (well-formed JSON) holds arrays and objects in each other to more than `limit` levels.

    A number or string has depth 0, [] and {} have depth 1.
    """
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", text).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(array("b", brackets)), default=0) > limit
