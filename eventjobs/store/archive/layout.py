"""The bytes of an archive file: a header, compressed parts each with its checksum, their offsets, and a footer.

There are two sorts of parts. One has the texts of 256 records; one has places of the job index, which says at which
positions a job has records. Nothing in a file lies outside of a checksum. See specs/log-format.md.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice

from attrs import frozen

from eventjobs.store.codec import CRC_BYTES, seal, unseal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.keys import uuid_bytes
from eventjobs.store.merkle import NODE_LEVELS

FORMAT_VERSION = 1
"""Version of the files. One with a higher version is refused."""
PART_RECORDS = 1 << NODE_LEVELS
"""Records in one part: those under one kept node of the tree."""
PART_PLACES = 1_024
"""Places of the job index in one part."""
COMPRESSION = 6
"""zlib's level."""

_MAGIC = b"eventjobs log\r\n\x1a"
_HEADER = struct.Struct(f">{len(_MAGIC)}sI")
_FOOTER = struct.Struct(">QQqqIIQ32s")
_LENGTH, _OFFSET, _PLACE = "I", "Q", struct.Struct(">16sI")
_HEADER_KEY, _FOOTER_KEY, _OFFSETS_KEY, _RECORDS_KEY, _PLACES_KEY = (
    b"header",
    b"footer",
    b"offsets",
    b"records",
    b"jobs",
)

HEADER_BYTES = CRC_BYTES + _HEADER.size
FOOTER_BYTES = CRC_BYTES + _FOOTER.size

Place = tuple[bytes, int]
"""A job's UUID in bytes, and how many records of the segment lie before one of its records."""


@frozen
class Footer:
    """What a file says of itself: first and last position, the times of these records (microseconds), how many parts
    there are of each sort, where their offsets lie, and the root over the records."""

    first: int
    last: int
    first_time: int
    last_time: int
    record_parts: int
    place_parts: int
    offsets_at: int
    root: bytes

    def encode(self) -> bytes:
        fields = (self.first, self.last, self.first_time, self.last_time)
        return seal(_FOOTER_KEY, _FOOTER.pack(*fields, self.record_parts, self.place_parts, self.offsets_at, self.root))

    @classmethod
    def decode(cls, stored: bytes) -> Footer:
        """Raises Corrupt."""
        value = unseal(_FOOTER_KEY, stored, "footer")
        if len(value) != _FOOTER.size:
            raise Corrupt("footer: it is no footer")
        return cls(*_FOOTER.unpack(value))


def header() -> bytes:
    """The first bytes of a file."""
    return seal(_HEADER_KEY, _HEADER.pack(_MAGIC, FORMAT_VERSION))


def check_header(stored: bytes) -> None:
    """Raise StoreError for a newer format, Corrupt for what is no archive file."""
    if stored[CRC_BYTES : CRC_BYTES + len(_MAGIC)] != _MAGIC:
        raise Corrupt("it is no archive file")
    _, version = _HEADER.unpack(unseal(_HEADER_KEY, stored, "header"))
    if version > FORMAT_VERSION:
        raise StoreError(f"it has format {version}, this eventjobs knows up to {FORMAT_VERSION}; use a newer one")


def encode_records(first: int, texts: Sequence[bytes]) -> bytes:
    """The part with these records, of which the first has the position `first`."""
    lengths = struct.pack(f">{len(texts)}{_LENGTH}", *map(len, texts))
    return _compressed(_key(_RECORDS_KEY, first), b"".join([lengths, *texts]))


def decode_records(first: int, stored: bytes) -> list[bytes]:
    """The texts of a part. Raises Corrupt."""
    content = _uncompressed(_key(_RECORDS_KEY, first), stored)
    lengths = struct.unpack_from(f">{PART_RECORDS}{_LENGTH}", content)
    texts, at = [], struct.calcsize(f">{PART_RECORDS}{_LENGTH}")
    for length in lengths:
        texts.append(content[at : at + length])
        at += length
    if at != len(content):
        raise Corrupt("its records are not as long as it says")
    return texts


def places(job_ids: Iterable[str]) -> list[Place]:
    """The job index of a segment's records, whose jobs are given in the order of their positions.

    Sorted in short pieces: sorting all at once would hold up every other thread for as long as it takes.
    """
    found = ((uuid_bytes(job_id), place) for place, job_id in enumerate(job_ids))
    pieces = iter(lambda: sorted(islice(found, PART_PLACES)), [])
    return list(merge(*pieces))


def encode_places(found: Sequence[Place]) -> Iterator[bytes]:
    """The parts of a job index."""
    for number, begin in enumerate(range(0, len(found), PART_PLACES)):
        content = b"".join([_PLACE.pack(*place) for place in found[begin : begin + PART_PLACES]])
        yield _compressed(_key(_PLACES_KEY, number), content)


def decode_places(number: int, stored: bytes) -> list[Place]:
    """The places of a part. Raises Corrupt."""
    return list(_PLACE.iter_unpack(_uncompressed(_key(_PLACES_KEY, number), stored)))


def encode_offsets(offsets: Sequence[int]) -> bytes:
    """Where each part begins, and the last one ends."""
    return seal(_OFFSETS_KEY, struct.pack(f">{len(offsets)}{_OFFSET}", *offsets))


def decode_offsets(stored: bytes) -> tuple[int, ...]:
    """Raises Corrupt."""
    value = unseal(_OFFSETS_KEY, stored, "offsets")
    return struct.unpack(f">{len(value) // struct.calcsize(_OFFSET)}{_OFFSET}", value)


def offsets_bytes(parts: int) -> int:
    """How many bytes the offsets of so many parts take."""
    return CRC_BYTES + (parts + 1) * struct.calcsize(_OFFSET)


def _key(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8, "big")


def _compressed(key: bytes, content: bytes) -> bytes:
    return seal(key, zlib.compress(content, COMPRESSION))


def _uncompressed(key: bytes, stored: bytes) -> bytes:
    return zlib.decompress(unseal(key, stored, key[:-8].decode()))
