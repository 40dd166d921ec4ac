"""A quick look at the structure of a store's file: whether there is nothing in it that could be wrong.

It asks of a file all that `lmdb.verify` asks, in less than half of the time, as it knows only what an eventjobs store
has: LMDB 0.9, and tables with plain keys, each with one value. Whatever is otherwise is not judged here: then
`lmdb.verify` has to look, and has the words for it. The file is read as bytes, without LMDB.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

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
    NUMBER_BYTES,
    OVERFLOW,
    PAGE_HEAD,
    PAGE_SIZES,
    TABLE,
    FileHead,
    Tree,
    nodes_of,
)


class _Odd(Exception):
    """Something that has to be looked at thoroughly."""


def _expect(holds: bool) -> None:
    if not holds:
        raise _Odd


def looks_sound(file: Path) -> bool:
    """Whether nothing is wrong with the structure of a file that nobody writes. False says nothing: look thoroughly."""
    with file.open("rb", buffering=0) as stream:
        try:
            _Look(stream.fileno()).all()
        except (_Odd, struct.error):
            return False
    return True


class _Look:
    """One look at one file."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = size = FileHead.parse(self._read(0, HEAD_BYTES)).free.page_size
        _expect(size in PAGE_SIZES)
        self._free, self._main, last, self._transaction = self._newer_head()
        _expect(last + 1 >= HEADS and (last + 1) * size <= os.fstat(file).st_size)
        self._seen = bytearray(last + 1)
        """One for each page that was met: none may be met twice, and in the end none may be left."""
        self._tables: list[Tree] = []
        self._lists: list[bytes] = []

    def _read(self, at: int, count: int) -> bytes:
        found = os.pread(self._file, count, at)
        _expect(len(found) == count)
        return found

    def _newer_head(self) -> tuple[Tree, Tree, int, int]:
        heads = [FileHead.parse(self._read(number * self._size, HEAD_BYTES)) for number in range(HEADS)]
        for number, head in enumerate(heads):
            _expect(head.page == number and head.is_one and head.free.page_size == self._size)
            _expect(not head.transaction or head.transaction % 2 == number)
        newer = max(heads, key=lambda head: head.transaction)
        return newer.free, newer.main, newer.last_page, newer.transaction

    def all(self) -> None:
        """Raises _Odd when something may be wrong."""
        self._look_at(self._free, free=True)
        _expect(not self._main.flags and not self._main.page_size)
        self._look_at(self._main, main=True)
        for table in self._tables:
            _expect(not table.flags and not table.page_size)
            self._look_at(table)
        for content in self._lists:
            self._look_at_list(content)
        _expect(not self._seen.count(0, HEADS))

    def _look_at(self, tree: Tree, *, free: bool = False, main: bool = False) -> None:
        counts = (tree.branches, tree.leaves, tree.overflows, tree.entries)
        if tree.root == NO_PAGE:
            _expect(not any(counts) and not tree.depth)
            return
        _expect(1 <= tree.depth <= DEPTH_MAX)
        self._is_free, self._is_main, self._depth = free, main, tree.depth
        self._branches = self._leaves = self._overflows = self._entries = 0
        self._last_key = b""
        self._walk(tree.root, 1)
        _expect((self._branches, self._leaves, self._overflows, self._entries) == counts)

    def _meet(self, page: int) -> None:
        _expect(HEADS <= page < len(self._seen) and not self._seen[page])
        self._seen[page] = 1

    def _walk(self, number: int, depth: int) -> None:
        self._meet(number)
        page = self._read(number * self._size, self._size)
        own, _, sort, lower, upper = PAGE_HEAD.unpack_from(page)
        _expect(own == number and PAGE_HEAD.size <= lower <= upper <= self._size)
        nodes = nodes_of(page, lower)
        _expect(not nodes or (min(nodes) >= upper and max(nodes) + NODE_HEAD.size <= self._size))
        if depth == self._depth:
            _expect(sort == LEAF)
            self._leaves += 1
            self._leaf(page, nodes)
        else:
            _expect(sort == BRANCH and len(nodes) > 0)
            self._branches += 1
            self._branch(page, nodes, depth)

    def _branch(self, page: bytes, nodes: tuple[int, ...], depth: int) -> None:
        last = b""
        for place, at in enumerate(nodes):
            low, middle, high, key_size = NODE_HEAD.unpack_from(page, at)
            start = at + NODE_HEAD.size
            _expect(start + key_size <= self._size)
            if place:
                key = self._rank(page[start : start + key_size])
                _expect(key > last)
                last = key
            self._walk(low | middle << 16 | high << 32, depth + 1)

    def _leaf(self, page: bytes, nodes: tuple[int, ...]) -> None:
        node, head, size, last, is_free = (
            NODE_HEAD.unpack_from,
            NODE_HEAD.size,
            self._size,
            self._last_key,
            self._is_free,
        )
        for at in nodes:
            low, high, sort, key_size = node(page, at)
            stop = at + head + key_size
            if sort or is_free or stop + (low | high << 16) > size:
                self._value(page, sort, stop, low | high << 16)
            key = page[at + head : stop]
            if is_free:
                key = self._rank(key)
            if key <= last:
                raise _Odd
            last = key
        self._last_key = last
        self._entries += len(nodes)

    def _rank(self, key: bytes) -> bytes:
        """What sorts as the key does. Those of the table of free pages are the numbers of transactions."""
        if not self._is_free:
            return key
        _expect(len(key) == NUMBER_BYTES)
        number = int.from_bytes(key, sys.byteorder)
        _expect(1 <= number <= self._transaction)
        return number.to_bytes(NUMBER_BYTES, "big")

    def _value(self, page: bytes, sort: int, at: int, size: int) -> None:
        """A value that is not plainly in its page: elsewhere, the root of a table, or a list of free pages."""
        if sort == ELSEWHERE:
            content = self._elsewhere(NUMBER.unpack_from(page, at)[0], size)
        else:
            _expect(at + size <= self._size)
            content = page[at : at + size]
        if self._is_free:
            _expect(sort in (0, ELSEWHERE))
            self._lists.append(content)
        elif sort != ELSEWHERE:
            _expect(sort == TABLE and self._is_main)
            self._tables.append(Tree.parse(content))

    def _elsewhere(self, first: int, size: int) -> bytes:
        count = (LONG_HEAD.size - 1 + size) // self._size + 1
        for page in range(first, first + count):
            self._meet(page)
        content = self._read(first * self._size, LONG_HEAD.size + (size if self._is_free else 0))
        own, _, sort, pages = LONG_HEAD.unpack_from(content)
        _expect((own, sort, pages) == (first, OVERFLOW, count))
        self._overflows += count
        return content[LONG_HEAD.size :]

    def _look_at_list(self, content: bytes) -> None:
        count, *pages = struct.unpack(f"={len(content) // NUMBER_BYTES}Q", content)
        _expect(count == len(pages) and pages == sorted(pages, reverse=True))
        for page in pages:
            self._meet(page)
