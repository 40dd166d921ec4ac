"""The manifest: which segments of a log are in the archive, one line for each, in order and without a gap."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from attrs import evolve, frozen

from eventjobs.store.archive.segment import Entry, cannot_write
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.flushing import flush
from eventjobs.store.merkle import HASH_BYTES, NODE_LEVELS

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
"""Version of the manifest. One with a higher version is refused."""
SEGMENT_LEVEL = 16
"""Level of the tree's nodes that stand for one segment: 65,536 records."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    first: int
    last: int
    first_time: int
    last_time: int
    bytes: int
    sha256: str
    root: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    segment_records: int
    segments: list[_Line]


class _Version(msgspec.Struct):
    format: int


@frozen
class Manifest:
    """The segments, in order; each has 2**level records."""

    level: int = SEGMENT_LEVEL
    entries: tuple[Entry, ...] = ()

    @property
    def end(self) -> int:
        """The last position in the archive; 0 when it is empty."""
        return self.entries[-1].last if self.entries else 0

    def with_entry(self, entry: Entry) -> Manifest:
        """The manifest with one more segment, which follows those that are in it."""
        return evolve(self, entries=(*self.entries, entry))

    def encode(self) -> bytes:
        lines = ",\n".join(
            msgspec.json.encode(
                _Line(e.first, e.last, e.first_time, e.last_time, e.size, e.sha256.hex(), e.root.hex())
            ).decode()
            for e in self.entries
        )
        start = f'{{"format":{FORMAT_VERSION},"segment_records":{1 << self.level},"segments":['
        return f"{start}\n{lines}\n]}}\n".encode() if lines else f"{start}]}}\n".encode()

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Raises Corrupt for what is no manifest, or one with a gap; StoreError for a newer one."""
        try:
            version = msgspec.json.decode(text, type=_Version).format
            if version > FORMAT_VERSION:
                known = f"this eventjobs knows up to {FORMAT_VERSION}"
                raise StoreError(f"it has format {version}, {known}; use a newer one")
            file = msgspec.json.decode(text, type=_File)
            entries = tuple(map(_entry, file.segments))
        except (msgspec.DecodeError, ValueError) as error:
            raise Corrupt(f"it cannot be read: {error}") from error
        level = file.segment_records.bit_length() - 1
        if version < 1 or level < NODE_LEVELS or file.segment_records != 1 << level:
            raise Corrupt(f"it has format {version} and segments of {file.segment_records} records, which cannot be")
        for index, entry in enumerate(entries):
            first = (index << level) + 1
            if (entry.first, entry.last) != (first, first + (1 << level) - 1):
                raise Corrupt(f"the segment that begins with position {first} is not where it belongs")
        return cls(level, entries)


def _entry(line: _Line) -> Entry:
    sha256, root = bytes.fromhex(line.sha256), bytes.fromhex(line.root)
    if len(sha256) != HASH_BYTES or len(root) != HASH_BYTES:
        raise ValueError("a hash has the wrong length")
    return Entry(line.first, line.last, line.first_time, line.last_time, line.bytes, sha256, root)


def load_manifest(directory: Path) -> Manifest:
    """The manifest of an archive; that of an empty one when there is none. Raises Corrupt, StoreError."""
    path = directory / MANIFEST_FILE
    try:
        return Manifest.decode(path.read_bytes())
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    except StoreError as error:
        raise type(error)(f"{path}: {error}") from error


def save_manifest(directory: Path, manifest: Manifest) -> None:
    """Put the manifest in place of the old one, as a whole or not at all, and flush it. Raises StorageFull and
    StoreError."""
    path = directory / MANIFEST_FILE
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as stream:
            stream.write(manifest.encode())
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
        flush(directory)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


PARTIAL = ".partial"
"""Ends the names of files that are being written."""
