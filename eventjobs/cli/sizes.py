"""Sizes on the command line: 1048576, 512M, 64GiB."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"(\d+)\s*(?:([KMGT])(?:i?B)?|B)?", re.IGNORECASE)
_POWERS = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Size(click.ParamType):
    """A whole number of bytes, or of K, M, G, T (powers of 1024, "iB" or "B" may follow)."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a size such as 1048576, 512M or 64G", param, ctx)
        return int(match[1]) << 10 * _POWERS[match[2] and match[2].upper()]


SIZE = Size()
