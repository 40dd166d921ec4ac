"""Contents: payloads, results and error documents. They live beside the log; an event holds size and digest."""

from __future__ import annotations

import hashlib
import re

from eventjobs.domain.value import Value

SALT_BYTES = 16


class ContentDigest(Value):
    """What an event says of a content: size in bytes, and SHA-256 of salt and text in lower-case hex.

    The salt lies beside the text and is erased with it, so that a short content cannot be guessed from its digest.
    """

    size: int
    sha256: str


class Content(Value):
    """A JSON text exactly as it was sent (UTF-8), and the salt drawn for it at the edge."""

    text: bytes
    salt: bytes

    def digest(self) -> ContentDigest:
        return ContentDigest(len(self.text), hashlib.sha256(self.salt + self.text).hexdigest())


_STRING_OR_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


def without_insignificant_space(text: bytes) -> bytes:
    """The JSON text with the white space between its tokens removed (RFC 8259, section 2); strings untouched."""
    return _STRING_OR_SPACE.sub(lambda match: match[1] or b"", text)
