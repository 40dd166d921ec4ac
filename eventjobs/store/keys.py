"""Keys of projection tables as bytes that sort as their parts do.

Names come first, each ended by a NUL; then the parts of fixed width: a number as 8 bytes big-endian with its sign
bit turned, a UUID as its 16 bytes, a digest as its 32. Keys stay below the 511 bytes LMDB allows: at most three
names of 128 characters and a few numbers.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable

from eventjobs.domain.projection import Key, Part, Table

NUMBER_MAX = 2**63 - 1
NUMBER_MIN = -(2**63)


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a UUID in canonical text."""
    return bytes.fromhex(text.replace("-", ""))


def uuid_text(value: bytes) -> str:
    """Canonical text of a UUID's 16 bytes."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class KeyCodec:
    """Turns the keys of one table into bytes and back. `encode` gives the bytes of a full key."""

    def __init__(self, table: Table) -> None:
        self._names = sum(part is Part.NAME for part in table.key)
        self._fixed = table.key[self._names :]
        if Part.NAME in self._fixed:
            raise ValueError(f"table {table.name}: names must come before all other parts of a key")
        self._struct = struct.Struct(">" + "".join(_FORMATS[part] for part in self._fixed))
        self._from_fixed = [_FROM_FIXED[part] for part in self._fixed]
        self.encode = self._compiled()

    def _compiled(self) -> Callable[[Key], bytes]:
        """The encoder as one expression: every record writes half a dozen keys, and a loop costs thrice."""
        names = "".join(f"{{key[{place}]}}\\0" for place in range(self._names))
        fixed = [_TO_FIXED[part].format(f"key[{place}]") for place, part in enumerate(self._fixed, self._names)]
        source = f"lambda key: f'{names}'.encode() + pack({', '.join(fixed)})"
        return eval(source, {"pack": self._struct.pack, "uuid_bytes": uuid_bytes, "SIGN": _SIGN})

    def encode_prefix(self, prefix: Key) -> bytes:
        """The bytes all keys with these first parts start with."""
        head = "".join([f"{name}\0" for name in prefix[: self._names]]).encode()
        for part, value in zip(self._fixed, prefix[self._names :], strict=False):
            fixed = uuid_bytes(value) if part is Part.UUID else value + _SIGN if part is Part.NUMBER else value
            head += struct.pack(">" + _FORMATS[part], fixed)
        return head

    def end_of_group(self, key: bytes, names: int) -> bytes:
        """A byte string above all keys that share the key's first `names` names, and below all that follow them."""
        end = -1
        for _ in range(names):
            end = key.index(0, end + 1)
        return key[:end] + b"\1"  # names end in NUL and hold none, so nothing else sorts in between

    def decode(self, key: bytes) -> Key:
        """The parts of a key. Raises ValueError or struct.error when the bytes are not a key of this table."""
        split = len(key) - self._struct.size
        names = key[:split].decode("ascii").split("\0")[:-1]
        if len(names) != self._names:
            raise ValueError(f"{len(names)} names where {self._names} belong")
        return (*names, *map(operator.call, self._from_fixed, self._struct.unpack_from(key, split)))


_SIGN = 2**63
_FORMATS = {Part.NUMBER: "Q", Part.UUID: "16s", Part.DIGEST: "32s"}
_TO_FIXED = {Part.NUMBER: "{} + SIGN", Part.UUID: "uuid_bytes({})", Part.DIGEST: "{}"}
_FROM_FIXED = {Part.NUMBER: (-_SIGN).__add__, Part.UUID: uuid_text, Part.DIGEST: bytes}
