"""One archive file: writing it from records, reading it back, and checking it without anything else."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from attrs import frozen

from eventjobs.store.archive import layout
from eventjobs.store.archive.layout import PART_RECORDS, Footer
from eventjobs.store.codec import decode_outline
from eventjobs.store.contract import Corrupt, StorageFull, StoreError
from eventjobs.store.keys import uuid_bytes
from eventjobs.store.merkle import complete_root, leaf_hash

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
HASH_STEP_BYTES = 1 << 20


@frozen
class Entry:
    """What the manifest says of a segment: its positions, the times of its first and last record (microseconds), the
    size and the SHA-256 of its file, and the root over its records; both hashes in bytes."""

    first: int
    last: int
    first_time: int
    last_time: int
    size: int
    sha256: bytes
    root: bytes

    @property
    def name(self) -> str:
        """The name of the file."""
        return segment_name(self.first, self.last)


def segment_name(first: int, last: int) -> str:
    """The name of the file with the records at these positions."""
    return f"{first:012}-{last:012}.log"


def write_segment(path: Path, first: int, parts: Iterable[list[bytes]]) -> None:
    """Write a file with the records that come in parts of 256, and flush it. `first` is the position of the first.

    Raises StorageFull when there is no room; what was written is removed then, and when `parts` raises.
    """
    try:
        with path.open("wb") as stream:
            _write(stream, first, parts)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def cannot_write(path: Path, error: OSError) -> StoreError:
    """What it means that a file cannot be written."""
    if error.errno in _NO_SPACE:
        return StorageFull(f"there is no room for {path}; make room, nothing else is needed")
    return StoreError(f"{path} cannot be written: {error.strerror}")


def _write(stream: object, first: int, parts: Iterable[list[bytes]]) -> None:
    offsets, roots, job_ids, times = [0], [], [], []
    offsets[0] = stream.write(layout.header())
    position = first

    def add(part: bytes) -> None:
        offsets.append(offsets[-1] + stream.write(part))

    for texts in parts:
        add(layout.encode_records(position, texts))
        roots.append(complete_root([leaf_hash(text) for text in texts]))
        outlines = [decode_outline(text) for text in texts]
        job_ids += [outline.job_id for outline in outlines]
        times += [outlines[0].time, outlines[-1].time]
        position += len(texts)
    for part in layout.encode_places(layout.places(job_ids)):
        add(part)
    stream.write(layout.encode_offsets(offsets))
    place_parts = len(offsets) - 1 - len(roots)
    last = position - 1
    footer = Footer(first, last, times[0], times[-1], len(roots), place_parts, offsets[-1], complete_root(roots))
    stream.write(footer.encode())


class Segment:
    """An archive file that is read. It is opened for each look, so nothing has to be closed, and nothing is cached."""

    def __init__(self, path: Path) -> None:
        """Raises Corrupt for a file that is missing, cut off or damaged at its ends, StoreError for a newer one."""
        self.path = path
        with self._told():
            self.size = path.stat().st_size
            if self.size < layout.HEADER_BYTES + layout.FOOTER_BYTES:
                raise Corrupt("it was cut off")
            layout.check_header(self._read(0, layout.HEADER_BYTES))
            self.footer = Footer.decode(self._read(self.size - layout.FOOTER_BYTES, layout.FOOTER_BYTES))
            self._offsets = self._checked_offsets()

    def _checked_offsets(self) -> tuple[int, ...]:
        footer = self.footer
        parts = footer.record_parts + footer.place_parts
        end = footer.offsets_at + layout.offsets_bytes(parts)
        records = footer.last - footer.first + 1
        if end + layout.FOOTER_BYTES != self.size or records != footer.record_parts * PART_RECORDS:
            raise Corrupt("its footer is that of another file")
        offsets = layout.decode_offsets(self._read(footer.offsets_at, end - footer.offsets_at))
        rising = all(one < other for one, other in pairwise(offsets))
        if not rising or (offsets[0], offsets[-1]) != (layout.HEADER_BYTES, footer.offsets_at):
            raise Corrupt("offsets: they do not fit the file")
        return offsets

    def texts(self, part: int) -> list[bytes]:
        """The records of a part, the first of which is 0. Raises Corrupt."""
        first = self.footer.first + part * PART_RECORDS
        with self._told(f"the block with positions {first} to {first + PART_RECORDS - 1}"):
            return layout.decode_records(first, self._part(part))

    def positions_of(self, job_id: str) -> list[int]:
        """The positions of a job's records in this file, in order. Raises Corrupt."""
        wanted = uuid_bytes(job_id)
        parts = range(self.footer.place_parts)
        number = max(0, bisect_left(parts, (wanted, 0), key=lambda part: self._places(part)[0]) - 1)
        found: list[int] = []
        while number < len(parts):
            places = self._places(number)
            found += [self.footer.first + place for job, place in places if job == wanted]
            if places[-1][0] > wanted:
                break
            number += 1
        return found

    def check(self) -> Iterator[list[bytes]]:
        """Check everything in the file against the rest of it, handing out the records of one part after another.

        Raises Corrupt for the first thing that is wrong; whoever wants to know must take all parts.
        """
        footer, roots, job_ids, first_time, time = self.footer, [], [], None, 0
        for part in range(footer.record_parts):
            texts = self.texts(part)
            yield texts
            for position, text in enumerate(texts, footer.first + part * PART_RECORDS):
                with self._told(f"the record at position {position}"):
                    outline = decode_outline(text)
                    if outline.position != position or outline.time < time:
                        raise Corrupt("it says that it belongs elsewhere")
                time = outline.time
                first_time = time if first_time is None else first_time
                job_ids.append(outline.job_id)
            roots.append(complete_root([leaf_hash(text) for text in texts]))
        stored = [place for part in range(footer.place_parts) for place in self._places(part)]
        with self._told("the file"):
            times = (first_time, time)
            if complete_root(roots) != footer.root or times != (footer.first_time, footer.last_time):
                raise Corrupt("its footer is not that of its records")
            if stored != layout.places(job_ids):
                raise Corrupt("its job index is not that of its records")

    def sha256(self) -> bytes:
        """The hash of the file's bytes. Raises Corrupt when they cannot be read."""
        digest = hashlib.sha256()
        with self._told():
            for at in range(0, self.size, HASH_STEP_BYTES):
                digest.update(self._read(at, min(HASH_STEP_BYTES, self.size - at)))
        return digest.digest()

    def entry(self) -> Entry:
        """What a manifest says of this file."""
        f = self.footer
        return Entry(f.first, f.last, f.first_time, f.last_time, self.size, self.sha256(), f.root)

    def _places(self, part: int) -> list[layout.Place]:
        with self._told(f"part {part} of the job index"):
            return layout.decode_places(part, self._part(self.footer.record_parts + part))

    def _part(self, number: int) -> bytes:
        begin, end = self._offsets[number], self._offsets[number + 1]
        return self._read(begin, end - begin)

    def _read(self, at: int, length: int) -> bytes:
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.pread(file, length, at)
        finally:
            os.close(file)
        if len(found) != length:
            raise Corrupt("it was cut off")
        return found

    def _told(self, what: str | None = None) -> _Told:
        """Names the file in an error; `what` of it, when it is not the file as a whole."""
        return _Told(str(self.path) if what is None else f"{self.path}: {what}", self.path)


@frozen
class _Told:
    """Says where in an error: the file, and what of it."""

    where: str
    path: Path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise Corrupt(f"the archive file {self.path} is missing; put it back") from error
        if isinstance(error, OSError):
            raise StoreError(f"the archive file {self.path} cannot be read: {error.strerror}") from error
        if isinstance(error, zlib.error | struct.error):
            raise Corrupt(f"{self.where} cannot be read: {error}") from error
        if isinstance(error, StoreError):
            raise type(error)(f"{self.where}: {error}") from error
