"""Members that are given twice in one object: which one was meant nobody can know, so they are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_NAME = re.compile(rb'[\s{,]*("(?:[^"\\]|\\.)*")\s*:\s*')
_ENDS_A_VALUE = b",}] \t\r\n"
_AROUND_A_NAME = len('"":')


def given_twice(text: bytes, members: Mapping[str, msgspec.Raw]) -> str | None:
    """The first name that the object in `text`, which is sound JSON, has twice; None when each is there once.

    `members` is what the text was decoded to, where of each name the last is left. Without insignificant space the
    length tells that nothing is missing; else the text is gone through, from name to name.
    """
    named = len("".join(members).encode()) + (_AROUND_A_NAME + len(",")) * len(members)
    valued = sum([memoryview(raw).nbytes for raw in members.values()])
    if len(text) == named + valued + 1 or not members:  # a comma less than members; and the braces
        return None
    seen = set()
    end = 0
    while (found := _NAME.match(text, end)) is not None:
        name = msgspec.json.decode(found[1])
        value = bytes(members[name])
        end = found.end() + len(value)
        is_last = text.startswith(value, found.end()) and text[end : end + 1] in _ENDS_A_VALUE
        if name in seen or not is_last:
            return name
        seen.add(name)
    return None
