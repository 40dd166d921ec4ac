"""The archive of a log as a whole: its records by position, and adding the next segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from eventjobs.store.archive.layout import PART_RECORDS
from eventjobs.store.archive.manifest import (
    MANIFEST_FILE,
    PARTIAL,
    load_manifest,
    save_manifest,
)
from eventjobs.store.archive.segment import Entry, Segment, cannot_write, segment_name, write_segment
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.flushing import flush

ARCHIVE_DIRECTORY = "archive"
"""Where the files lie, below the directory of the store."""
SEGMENTS_CACHED, PARTS_CACHED = 32, 4

Subtree = Callable[[int, int], bytes]


class Archive:
    """The records of a log from position 1 to `end`. Read from any thread; `add` is for one thread at a time."""

    def __init__(self, directory: Path) -> None:
        """`directory` need not be there. Raises Corrupt and StoreError for a manifest that cannot be read."""
        self.directory = directory
        self.manifest = load_manifest(directory)
        self.checked = 0
        """Up to which position its files were read back, in this process or before the records left the store."""
        self._segment = lru_cache(SEGMENTS_CACHED)(self._open)
        self._part = lru_cache(PARTS_CACHED)(self._read_part)

    @property
    def end(self) -> int:
        """The last position in the archive, 0 when there is none."""
        return self.manifest.end

    @property
    def segment_records(self) -> int:
        """How many records a segment has."""
        return 1 << self.manifest.level

    def texts(self, after: int, limit: int) -> list[bytes]:
        """The texts of up to `limit` records with positions above `after`, in order; raises Corrupt."""
        found: list[bytes] = []
        stop = min(self.end, after + limit)
        while after < stop:
            begin = after % PART_RECORDS
            found += self._part(after // PART_RECORDS)[begin : begin + stop - after]
            after += min(PART_RECORDS - begin, stop - after)
        return found

    def positions_of(self, job_id: str) -> Iterator[int]:
        """The positions of a job's records in the archive, in order; from the files' job indexes. Raises Corrupt."""
        for index in range(len(self.manifest.entries)):
            yield from self._segment(index).positions_of(job_id)

    def files(self) -> list[Path]:
        """The files that make up the archive, the manifest last: who copies it copies them in this order."""
        entries = self.manifest.entries
        return [*(self.directory / e.name for e in entries), *([self.directory / MANIFEST_FILE] if entries else [])]

    def check_reaches(self, size: int) -> None:
        """Raise Corrupt when the first `size` records, which are nowhere else any more, are not all in the archive."""
        if size > self.end:
            says = f"goes up to {self.end}" if self.end else "is missing, or names none"
            manifest = self.directory / MANIFEST_FILE
            where = f"the records up to position {size} are in the archive alone"
            raise Corrupt(f"{where}, but {manifest} {says}; put the archive back")

    def check_files(self, subtree: Subtree | None = None) -> None:
        """Check that each file is there and, by its ends, the one that the manifest speaks of; and, with `subtree`, a
        look-up of the log's complete subtrees, that it is of this log. Raises Corrupt, naming the file."""
        for index in range(len(self.manifest.entries)):
            self.check_file(index, subtree)

    def check_file(self, index: int, subtree: Subtree | None) -> None:
        """The same for one file, the first of which is 0."""
        path, root = self._segment(index).path, self.manifest.entries[index].root
        if subtree is not None and subtree(self.manifest.level, index) != root:
            raise Corrupt(f"the archive file {path} has other records than the store's log")

    def segment(self, index: int) -> Segment:
        """One of the files, which is shown to be, by its ends, the one that the manifest speaks of."""
        return self._segment(index)

    def _open(self, index: int) -> Segment:
        entry = self.manifest.entries[index]
        path = self.directory / entry.name
        if path.exists() and (size := path.stat().st_size) < entry.size:
            there = f"has {size:,} bytes, where the manifest says {entry.size:,} bytes, and was cut off"
            raise Corrupt(f"the archive file {path} {there}")
        segment = Segment(path)
        f = segment.footer
        if (f.first, f.last, f.first_time, f.last_time, f.root, segment.size) != _of_file(entry):
            raise Corrupt(f"the archive file {segment.path} is not the one that the manifest speaks of")
        return segment

    def _read_part(self, number: int) -> list[bytes]:
        index, part = divmod(number, self.segment_records // PART_RECORDS)
        return self._segment(index).texts(part)

    # Adding ---------------------------------------------------------------------------------------------------

    def add(self, parts: Iterator[list[bytes]], root: bytes, pause: Callable[[], None]) -> None:
        """Seal the next segment, whose records come in parts of 256 and whose root is that of the log's tree.

        When it returns, file and manifest are on disk, and the file was read back and led to the root. Raises
        StorageFull with nothing left behind, Corrupt when the records are not those of the tree. `pause` is called
        after each part that is read back; what it raises ends the work, with nothing left behind.
        """
        first = self.end + 1
        path = self.directory / segment_name(first, self.end + self.segment_records)
        partial = path.with_name(path.name + PARTIAL)
        self._make_directory()
        write_segment(partial, first, parts)
        try:
            segment = Segment(partial)
            for _ in segment.check():
                pause()
            if segment.footer.root != root:
                raise Corrupt(f"log: the records from position {first} on are not those of the tree")
            entry = segment.entry()
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        flush(self.directory)
        manifest = self.manifest.with_entry(entry)
        save_manifest(self.directory, manifest)
        self.manifest = manifest
        self.checked = self.end

    def check_next(self, pause: Callable[[], None]) -> None:
        """Read back the next file that was sealed by a process that ended then, of which there must be one. Raises
        Corrupt, and what `pause` raises."""
        index = self.checked >> self.manifest.level
        for _ in self._segment(index).check():
            pause()
        self.checked = index + 1 << self.manifest.level

    def _make_directory(self) -> None:
        if self.directory.exists():
            return
        try:
            self.directory.mkdir()
            flush(self.directory.parent)
        except OSError as error:
            raise cannot_write(self.directory, error) from error

    def remove_partial(self) -> None:
        """Remove what a run that was interrupted left behind."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{self.directory} cannot be read: {error.strerror}") from error
        for name in names:
            if name.endswith(PARTIAL):
                (self.directory / name).unlink()


def _of_file(entry: Entry) -> tuple[object, ...]:
    return entry.first, entry.last, entry.first_time, entry.last_time, entry.root, entry.size
