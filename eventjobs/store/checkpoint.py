"""The head of the log as a text to keep elsewhere: a C2SP checkpoint (c2sp.org/tlog-checkpoint).

Three lines: the origin, which names the log; the size in records; the root in base64. A blank line ends the text, and
signatures may follow it (notes.py). Other transparency tools read the same.
"""

from __future__ import annotations

import base64
import binascii
import re

from attrs import frozen

from eventjobs.domain.limits import TOKEN_MAX
from eventjobs.store.contract import Head
from eventjobs.store.merkle import HASH_BYTES
from eventjobs.store.notes import BadNote, SigningKey, note_text

ORIGIN_DEFAULT = "eventjobs"
"""The origin of a log that nobody named. It says nothing about which log it is."""

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


@frozen
class Checkpoint:
    """A head, and the name of the log it is of."""

    origin: str
    head: Head

    def text(self) -> str:
        """The three lines."""
        return f"{self.origin}\n{self.head.size}\n{base64.b64encode(self.head.root).decode()}\n"


@frozen
class Checkpoints:
    """Makes checkpoints of one log, signed if there is a key. The origin is the key's name unless another is given."""

    origin: str
    key: SigningKey | None

    @classmethod
    def of(cls, origin: str | None, key: SigningKey | None) -> Checkpoints:
        """Raises BadNote for an origin that cannot be a line of its own."""
        origin = origin or (ORIGIN_DEFAULT if key is None else key.name)
        if not origin.isprintable():
            raise BadNote("an origin is one line of printable characters")
        return cls(origin, key)

    def note(self, head: Head) -> str:
        """The checkpoint with the blank line after it, and the signature if there is a key."""
        text = Checkpoint(self.origin, head).text()
        return f"{text}\n" if self.key is None else self.key.signed(text)


def parse_checkpoint(note: bytes) -> Checkpoint:
    """The checkpoint of a text, signed or not; its signatures are not looked at. Raises BadNote."""
    lines = note_text(note).split("\n")
    if len(lines) < 4 or not all(lines[:-1]):
        raise BadNote("a checkpoint begins with three lines: origin, size and root")
    origin, size, root = lines[:3]
    if not _SIZE(size) or int(size) > TOKEN_MAX:
        raise BadNote(f"the second line is no size: {size!r}")
    try:
        digest = base64.b64decode(root, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != HASH_BYTES or base64.b64encode(digest).decode() != root:
        raise BadNote(f"the third line is no root, which are {HASH_BYTES} bytes in base64: {root!r}")
    return Checkpoint(origin, Head(int(size), digest))
