"""How a file of LMDB 0.9 is laid out, for programs that read it as bytes: what is in it can do them no harm.

The file is in pages. Two have a head each, of which the one with the higher transaction stands. A tree's leaves have
the rows of a table in the order of their keys; a value that is too long for its page has pages of its own.
"""

from __future__ import annotations

import struct

from attrs import frozen

MAGIC, VERSION = 0xBEEFC0DE, 1
HEADS = 2
"""The pages with the two heads of the file."""
DEPTH_MAX = 32
NO_PAGE = 2**64 - 1
NUMBER_BYTES = 8
PAGE_SIZES = [1 << bits for bits in range(9, 16)]

BRANCH, LEAF, OVERFLOW, HEAD = 1, 2, 4, 8
"""Sorts of pages."""
ELSEWHERE, TABLE = 1, 2
"""Sorts of values: one that has pages of its own, and the root of a table."""

PAGE_HEAD = struct.Struct("=QHHHH")
"""Of a page: its number, padding, its sort, and where its free room begins and ends."""
NODE_HEAD = struct.Struct("=HHHH")
"""Of a row: the size of its value (low, high), the sort of it, the size of its key. Of a branch: the page below."""
LONG_HEAD = struct.Struct("=QHHI")
"""Of the pages of one value: the number of the first, padding, its sort, and how many there are."""
NUMBER = struct.Struct("=Q")
_TREE = struct.Struct("=IHHQQQQQ")
_FILE_HEAD = struct.Struct("=QHHIIIQQ48s48sQQ")

HEAD_BYTES = _FILE_HEAD.size


@frozen
class Tree:
    """What is said of a table. `page_size` is set in the heads' tree of free pages alone."""

    page_size: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int

    @classmethod
    def parse(cls, content: bytes) -> Tree:
        """Raises struct.error for what has another size."""
        return cls(*_TREE.unpack(content))


@frozen
class FileHead:
    """One of the two heads. `is_one` says whether it is a head at all."""

    page: int
    is_one: bool
    free: Tree
    main: Tree
    last_page: int
    transaction: int

    @classmethod
    def parse(cls, content: bytes) -> FileHead:
        """Raises struct.error for what has another size."""
        page, _, sort, _, magic, version, _, _, free, main, last, transaction = _FILE_HEAD.unpack(content)
        is_one = (sort, magic, version) == (HEAD, MAGIC, VERSION)
        return cls(page, is_one, Tree.parse(free), Tree.parse(main), last, transaction)


def nodes_of(page: bytes, lower: int) -> tuple[int, ...]:
    """Where the nodes of a page begin, in the order of their keys. `lower` is where its free room begins."""
    return struct.unpack_from(f"={(lower - PAGE_HEAD.size) // 2}H", page, PAGE_HEAD.size)
