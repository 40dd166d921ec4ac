"""Signed notes (c2sp.org/signed-note): a text, a blank line, and a line for each signature over the text.

Signatures are Ed25519 (RFC 8032). Keys are written as Go's golang.org/x/mod/sumdb/note has them, in one line each:

    PRIVATE+KEY+<name>+<id>+<base64 of 0x01 and the seed>
    <name>+<id>+<base64 of 0x01 and the public key>

The id is the beginning of a hash over name and public key, in hex. Signing and checking need the package
`cryptography`, which comes with the extra `sign`; nothing else here does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from types import ModuleType

from attrs import field, frozen

ED25519 = b"\x01"
KEY_BYTES = 32
ID_BYTES = 4
NOTE_BYTES_MAX = 1 << 20
PRIVATE_PREFIX = "PRIVATE+KEY+"
SIGNATURE_PREFIX = "— "
"""An em dash and a space."""


class BadNote(ValueError):
    """A note or a key that is not in its form. The text says why."""


class CannotSign(Exception):
    """The library that signatures need is not installed."""


def note_text(note: bytes) -> str:
    """The text of a note, with its last line end, without its signatures. Raises BadNote."""
    return _split(note)[0]


def _split(note: bytes) -> tuple[str, list[str]]:
    """Text and signature lines: the last blank line parts them."""
    if len(note) > NOTE_BYTES_MAX:
        raise BadNote(f"a note has at most {NOTE_BYTES_MAX} bytes")
    try:
        whole = note.decode()
    except UnicodeDecodeError as error:
        raise BadNote("a note is UTF-8") from error
    if any(character < " " and character != "\n" for character in whole):
        raise BadNote("a note has no control characters but line ends")
    text, blank, signatures = whole.rpartition("\n\n")
    if not blank:
        text, signatures = whole.removesuffix("\n"), ""
    return text + "\n", signatures.removesuffix("\n").split("\n") if signatures else []


@frozen
class PublicKey:
    """What a signature is checked with."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The id that signatures carry: 4 bytes."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:ID_BYTES]

    def text(self) -> str:
        """The key in its line."""
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(ED25519 + self.public).decode()}"

    @classmethod
    def parse(cls, line: str) -> PublicKey:
        """The key of a line. Raises BadNote."""
        name, key_id, public = _parse_key(line.strip())
        key = cls(name, public)
        if key.id.hex() != key_id:
            raise BadNote("the key's id is not that of its name and its bytes: it was damaged or mistyped")
        return key

    def has_signed(self, note: bytes) -> bool:
        """Whether the note has a signature of this key and every one it has is right. Raises BadNote, CannotSign."""
        text, lines = _split(note)
        mine = [signature for line in lines if (signature := self._signature(line)) is not None]
        return bool(mine) and all(_verifies(self.public, text.encode(), signature) for signature in mine)

    def _signature(self, line: str) -> bytes | None:
        """The signature of a line if its name and id are this key's."""
        parts = line.removeprefix(SIGNATURE_PREFIX).split(" ")
        if not line.startswith(SIGNATURE_PREFIX) or len(parts) != 2:
            raise BadNote(f"this is no line of a signature: {line!r}")
        signed = _from_base64(parts[1])
        return signed[ID_BYTES:] if (parts[0], signed[:ID_BYTES]) == (self.name, self.id) else None


@frozen
class SigningKey:
    """What heads are signed with. Its text is a secret."""

    public_key: PublicKey
    _seed: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return self.public_key.name

    @classmethod
    def new(cls, name: str) -> SigningKey:
        """A key from fresh chance. Raises BadNote for a name that cannot be one, CannotSign."""
        _check_name(name)
        return cls._of(name, os.urandom(KEY_BYTES))

    @classmethod
    def _of(cls, name: str, seed: bytes) -> SigningKey:
        public = _ed25519().Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        return cls(PublicKey(name, public), seed)

    @classmethod
    def parse(cls, line: str) -> SigningKey:
        """The key of a line. Raises BadNote, CannotSign."""
        line = line.strip()
        if not line.startswith(PRIVATE_PREFIX):
            raise BadNote(f"a private key starts with {PRIVATE_PREFIX}")
        name, key_id, seed = _parse_key(line.removeprefix(PRIVATE_PREFIX))
        key = cls._of(name, seed)
        if key.public_key.id.hex() != key_id:
            raise BadNote("the key's id is not that of its name and its bytes: it was damaged or mistyped")
        return key

    def text(self) -> str:
        """The key in its line."""
        encoded = base64.b64encode(ED25519 + self._seed).decode()
        return f"{PRIVATE_PREFIX}{self.name}+{self.public_key.id.hex()}+{encoded}"

    def signed(self, text: str) -> str:
        """The note of a text, which ends with a line end and has the form of a note's text."""
        signature = _ed25519().Ed25519PrivateKey.from_private_bytes(self._seed).sign(text.encode())
        line = base64.b64encode(self.public_key.id + signature).decode()
        return f"{text}\n{SIGNATURE_PREFIX}{self.name} {line}\n"


def _check_name(name: str) -> None:
    if not name or "+" in name or not name.isprintable() or any(character.isspace() for character in name):
        raise BadNote("a key's name is printable and has neither space nor plus, such as example.com/jobs")


def _parse_key(line: str) -> tuple[str, str, bytes]:
    """Name, id in hex, and the bytes of a key."""
    name, _, rest = line.partition("+")
    key_id, _, encoded = rest.partition("+")
    _check_name(name)
    key = _from_base64(encoded)
    if len(key) != 1 + KEY_BYTES or key[:1] != ED25519:
        raise BadNote("this is no Ed25519 key: <name>+<id>+<base64>")
    return name, key_id, key[1:]


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise BadNote("what follows the id, or the name in a signature, is base64") from error


def _verifies(public: bytes, text: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except InvalidSignature:
        return False
    return True


def _ed25519() -> ModuleType:
    """The library's module; it is an extra, and only those who sign or check need it."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise CannotSign(
            "signing and checking signatures needs the package cryptography: "
            "pip install '.[sign]' in the folder with eventjobs' pyproject.toml"
        ) from error
    return ed25519
