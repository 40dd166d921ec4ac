"""The lines of an export: how each is written, and what a line that was read is.

One JSON object a line. A record is its own text, byte for byte, for that is what the tree hashes; every other line has
one member, whose name says what the line is. See specs/log-format.md.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

import msgspec
from attrs import frozen

from eventjobs.domain.content import SALT_BYTES, Content
from eventjobs.store.contract import Corrupt
from eventjobs.store.merkle import HASH_BYTES, NODE_LEVELS
from eventjobs.tools.entries import SourceHead

EXPORT_VERSION = 1
"""Version of the form of exports. One with a higher one is refused."""
BLOCK = 1 << NODE_LEVELS
"""After each so many records there is a line with the root over them."""
LINE_BYTES_MAX = 16 << 20
"""No line is longer: a content has 1 MiB at most, and JSON writes a byte in six at most."""

HEADER_START = b'{"export":'
CONTENT_START = b'{"content":'
BLOCK_START = b'{"block":'
END_START = b'{"end":'


class NotAnExport(Corrupt):
    """What is read is no export, or one of a newer form."""


@frozen
class Header:
    """The first line: the log's name, and its head when the export began."""

    origin: str
    head: SourceHead


@frozen
class BlockRoot:
    """The root over the 256 records up to the position `last`."""

    last: int
    root: bytes


@frozen
class ContentLine:
    """The content of the record at a position, which the line before has."""

    position: int
    content: Content


def is_export(path: Path) -> bool:
    """Whether a file begins as exports do; False for one that cannot be read."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(len(HEADER_START)) == HEADER_START
    except OSError:
        return False


def header_line(header: Header) -> bytes:
    """The first line."""
    return _line("export", {"version": EXPORT_VERSION, "origin": header.origin, "head": _head(header.head)})


def content_line(position: int, content: Content) -> bytes:
    """The line after a record that has a content. Raises Corrupt for a text that is no UTF-8."""
    try:
        text = content.text.decode()
    except UnicodeDecodeError as error:
        raise Corrupt(f"contents: the content of position {position} is no text: {error}") from error
    return _line("content", {"position": position, "salt": _base64(content.salt), "text": text})


def block_line(last: int, root: bytes) -> bytes:
    """The line after each 256th record."""
    return _line("block", {"last": last, "root": _base64(root)})


def end_line(head: SourceHead) -> bytes:
    """The last line."""
    return _line("end", _head(head))


def _head(head: SourceHead) -> dict[str, object]:
    return {"size": head.size, "root": _base64(head.root), "time": head.time}


def _line(name: str, value: object) -> bytes:
    return _encode({name: value}) + b"\n"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_encode = msgspec.json.Encoder().encode


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Head(_Strict):
    size: int
    root: str
    time: int


class _Version(msgspec.Struct):
    version: int


class _AnyHeader(msgspec.Struct):
    export: _Version


class _Export(_Strict):
    version: int
    origin: str
    head: _Head


class _HeaderLine(_Strict):
    export: _Export


class _Content(_Strict):
    position: int
    salt: str
    text: str


class _ContentLine(_Strict):
    content: _Content


class _Block(_Strict):
    last: int
    root: str


class _BlockLine(_Strict):
    block: _Block


class _EndLine(_Strict):
    end: _Head


_decode_any_header = msgspec.json.Decoder(_AnyHeader).decode
_decode_header = msgspec.json.Decoder(_HeaderLine).decode
_decode_content = msgspec.json.Decoder(_ContentLine).decode
_decode_block = msgspec.json.Decoder(_BlockLine).decode
_decode_end = msgspec.json.Decoder(_EndLine).decode


def parse_header(line: bytes) -> Header:
    """What the first line says. Raises NotAnExport."""
    if not line.startswith(HEADER_START):
        raise NotAnExport("it does not begin as an export of eventjobs does")
    try:
        version = _decode_any_header(line).export.version
        if version > EXPORT_VERSION:
            raise NotAnExport(
                f"it is an export of form {version}, this eventjobs knows up to {EXPORT_VERSION}; use a newer one"
            )
        export = _decode_header(line).export
        return Header(export.origin, _parse_head(export.head))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise NotAnExport(f"its first line cannot be read: {error}") from error


def parse(line: bytes) -> bytes | ContentLine | BlockRoot | SourceHead:
    """What a later line says; a record's is its text. Raises Corrupt."""
    try:
        if line.startswith(CONTENT_START):
            content = _decode_content(line).content
            salt = _bytes(content.salt, SALT_BYTES, "salt")
            return ContentLine(content.position, Content(content.text.encode(), salt))
        if line.startswith(BLOCK_START):
            block = _decode_block(line).block
            return BlockRoot(block.last, _bytes(block.root, HASH_BYTES, "root"))
        if line.startswith(END_START):
            return _parse_head(_decode_end(line).end)
    except (msgspec.DecodeError, UnicodeError, ValueError) as error:
        raise Corrupt(f"cannot be read: {error}") from error
    return line


def _parse_head(head: _Head) -> SourceHead:
    return SourceHead(head.size, _bytes(head.root, HASH_BYTES, "root"), head.time)


def _bytes(text: str, size: int, name: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its {name} is no base64") from error
    if len(value) != size or _base64(value) != text:
        raise ValueError(f"its {name} has to be {size} bytes in base64")
    return value
