"""Cursors: where a page of a list ended. Opaque text that only this coordinator's lists give out.

A cursor holds the enqueue position of the last job shown and a checksum over it and the list's name, so that a
made-up one, or another list's, is refused.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode

from eventjobs.api.faults import Unfit
from eventjobs.api.values import Check
from eventjobs.domain.limits import TOKEN_MAX

_CURSOR = struct.Struct(">QI")
_TEXT = re.compile(r"[A-Za-z0-9_-]{16}").fullmatch


def cursor_text(list_name: str, position: int) -> str:
    """The cursor for the page below `position`."""
    return urlsafe_b64encode(_CURSOR.pack(position, _checksum(list_name, position))).decode()


def cursor_of(list_name: str) -> Check[int]:
    """The check that gives the position back."""

    def check(value: object) -> int:
        if type(value) is str and _TEXT(value):
            position, checksum = _CURSOR.unpack(urlsafe_b64decode(value))
            if position <= TOKEN_MAX and checksum == _checksum(list_name, position):
                return position
        raise Unfit("must be the next_cursor of an earlier answer of this list")

    return check


def _checksum(list_name: str, position: int) -> int:
    return zlib.crc32(b"%s %d" % (list_name.encode(), position))
