"""The Merkle tree over the log, as in RFC 6962, section 2.1: SHA-256, leaf prefix 0x00, node prefix 0x01.

Appending needs the frontier alone: the roots of the complete subtrees that make up the tree, largest first, one for
each bit set in the size. Every eighth level of nodes is kept as well, so that proofs (proofs.py) are short work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

HASH_BYTES = 32
NODE_LEVELS = 8
"""Nodes at every level that is a multiple of this are kept beside the log: the roots over 256 records, 65,536, ..."""
EMPTY_ROOT = hashlib.sha256(b"").digest()

Node = tuple[int, int, bytes]
"""(level, index, hash): the root over the 2**level leaves after the first index * 2**level."""

_LAST_OF_BLOCK = (1 << NODE_LEVELS) - 1


def leaf_hash(record: bytes) -> bytes:
    """The hash of a leaf: SHA-256(0x00 || record)."""
    return hashlib.sha256(b"\x00" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def complete_root(hashes: list[bytes]) -> bytes:
    """The root over equal subtrees, of which there is a power of two."""
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


class Frontier:
    """The right edge of a growing tree. `size` is the number of leaves."""

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count() or any(len(peak) != HASH_BYTES for peak in self.peaks):
            raise ValueError(f"{len(self.peaks)} peaks do not make a tree of {size} leaves")

    def append(self, leaf: bytes) -> Sequence[Node]:
        """Add a leaf by its hash; every pair of equal subtrees at the edge becomes one.

        Returns the nodes to be kept that this completed: none, but for each 256th leaf.
        """
        peaks, old = self.peaks, self.size
        self.size = old + 1
        if old & _LAST_OF_BLOCK == _LAST_OF_BLOCK:
            return self._completed(leaf, old)
        while old & 1:
            leaf = node_hash(peaks.pop(), leaf)
            old >>= 1
        peaks.append(leaf)
        return ()

    def _completed(self, leaf: bytes, old: int) -> list[Node]:
        nodes, level = [], 0
        while old & 1:
            leaf = node_hash(self.peaks.pop(), leaf)
            old >>= 1
            level += 1
            if level % NODE_LEVELS == 0:
                nodes.append((level, old, leaf))
        self.peaks.append(leaf)
        return nodes

    def root(self) -> bytes:
        """The root hash; that of an empty tree is SHA-256 of nothing."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def copy(self) -> Frontier:
        return Frontier(self.size, self.peaks)
