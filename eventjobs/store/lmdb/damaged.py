"""A store whose file is damaged, read as bytes and without LMDB: what lies on pages that are in order.

LMDB trusts a file. At a page that is not what it should be it ends the process, or gives up all that it has open; and
where a file was cut off the process is ended by SIGBUS. Here such a page costs the rows that lie on it and no others.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eventjobs.domain.projection import Projection
from eventjobs.store.archive import ARCHIVE_DIRECTORY
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.layout import (
    BRANCH,
    DEPTH_MAX,
    ELSEWHERE,
    HEAD_BYTES,
    HEADS,
    LEAF,
    LONG_HEAD,
    NO_PAGE,
    NODE_HEAD,
    NUMBER,
    OVERFLOW,
    PAGE_HEAD,
    PAGE_SIZES,
    TABLE,
    FileHead,
    Tree,
    nodes_of,
)
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.snapshot import NoStore, Rows, Snapshot, data_file


class _Pages:
    """The pages of a file. Everything raises Corrupt for a page that is not what it should be."""

    def __init__(self, file: int) -> None:
        """Raises NoStore for a file whose heads cannot be read."""
        self._file = file
        try:
            first = FileHead.parse(os.pread(file, HEAD_BYTES, 0))
            self._size = first.free.page_size
            if not first.is_one or self._size not in PAGE_SIZES:
                raise NoStore("it is not a store of eventjobs, or its head is damaged")
            second = FileHead.parse(os.pread(file, HEAD_BYTES, self._size))
        except struct.error as error:
            raise NoStore("it is not a store of eventjobs, or was cut off before its heads end") from error
        heads = [head for head in (first, second) if head.is_one]
        newest = max(heads, key=lambda head: head.transaction)
        self._last_page = newest.last_page
        self.tables = self._tables(newest.main)

    def _tables(self, main: Tree) -> dict[str, Tree]:
        found = {}
        for key, sort, content in self._rows(main.root, b"", 1, set()):
            if sort == TABLE:
                found[key.decode("ascii", "replace")] = Tree.parse(content)
        return found

    def rows(self, table: Tree, start: bytes) -> Rows:
        """The rows of a table from a key on, up to where they break off."""
        if table.root == NO_PAGE:
            return iter(())
        return ((key, content) for key, _, content in self._rows(table.root, start, 1, set()))

    def _rows(self, number: int, start: bytes, depth: int, met: set[int]) -> Iterator[tuple[bytes, int, bytes]]:
        if number in met or depth > DEPTH_MAX:
            raise Corrupt(f"page {number} is reached by two ways")
        met.add(number)
        try:
            sort, nodes, page = self._page(number)
            found = [(self._row if sort == LEAF else self._below)(page, at) for at in nodes]
        except struct.error as error:
            raise Corrupt(f"page {number} has rows that reach beyond it") from error
        if sort == LEAF:
            yield from (row for row in found if row[0] >= start)
            return
        keys = [key for key, _ in found[1:]]
        for _, child in found[bisect_right(keys, start) :]:
            yield from self._rows(child, start, depth + 1, met)

    def _page(self, number: int) -> tuple[int, tuple[int, ...], bytes]:
        page = self._read(number, self._size)
        own, _, sort, lower, upper = PAGE_HEAD.unpack_from(page)
        if own != number or sort not in (BRANCH, LEAF) or not PAGE_HEAD.size <= lower <= upper <= self._size:
            raise Corrupt(f"page {number} is not what it should be")
        return sort, nodes_of(page, lower), page

    def _read(self, number: int, count: int) -> bytes:
        if not HEADS <= number <= self._last_page:
            raise Corrupt(f"page {number} is not one of the file")
        found = os.pread(self._file, count, number * self._size)
        if len(found) < count:
            raise Corrupt(f"page {number} lies beyond the end of the file")
        return found

    def _row(self, page: bytes, at: int) -> tuple[bytes, int, bytes]:
        low, high, sort, key_size = NODE_HEAD.unpack_from(page, at)
        begin = at + NODE_HEAD.size + key_size
        size = low | high << 16
        key = page[begin - key_size : begin]
        if sort == ELSEWHERE:
            return key, sort, self._long(NUMBER.unpack_from(page, begin)[0], size)
        if begin + size > self._size:
            raise struct.error
        return key, sort, page[begin : begin + size]

    def _long(self, first: int, size: int) -> bytes:
        content = self._read(first, LONG_HEAD.size + size)
        own, _, sort, _ = LONG_HEAD.unpack_from(content)
        if own != first or sort != OVERFLOW:
            raise Corrupt(f"page {first} is not what it should be")
        return content[LONG_HEAD.size :]

    def _below(self, page: bytes, at: int) -> tuple[bytes, int]:
        low, middle, high, key_size = NODE_HEAD.unpack_from(page, at)
        begin = at + NODE_HEAD.size
        return page[begin : begin + key_size], low | middle << 16 | high << 32


class DamagedSnapshot(Snapshot):
    """See Snapshot. Made by `open_damaged`."""

    def __init__(self, pages: _Pages, file: Path, archive: Path) -> None:
        self._pages = pages
        self._begin(file, archive)

    def _main_keys(self) -> list[bytes]:
        return [name.encode() for name in self._pages.tables]

    def reader(self, projections: Sequence[Projection] = ()) -> LmdbReader:
        raise Corrupt(f"{self.file} is damaged")

    def stored(self, name: str, key: bytes) -> bytes | None:
        row = next(self.rows(name, key), None)
        return row[1] if row is not None and row[0] == key else None

    def count(self, name: str) -> int:
        return self._pages.tables[name].entries if name in self.names else 0

    def rows(self, name: str, start: bytes = b"") -> Rows:
        if name not in self.names:
            return
        try:
            yield from self._pages.rows(self._pages.tables[name], start)
        except Corrupt as error:
            raise Corrupt(f"{name}: {error}") from error


@contextmanager
def open_damaged(path: Path, archive: Path | None = None) -> Iterator[Snapshot]:
    """What can be read of a store whose file nobody writes. See `open_snapshot`. Raises NoStore or Corrupt."""
    file = data_file(path)
    with file.open("rb", buffering=0) as stream:
        try:
            pages = _Pages(stream.fileno())
        except (Corrupt, NoStore) as error:
            raise type(error)(f"{file} cannot be read: {error}") from error
        yield DamagedSnapshot(pages, file, file.with_name(ARCHIVE_DIRECTORY) if archive is None else archive)
