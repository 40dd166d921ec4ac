"""The Merkle tree over the log, as in RFC 6962, section 2.1: SHA-256, leaf prefix 0x00, node prefix 0x01.

Only the frontier is kept: the roots of the complete subtrees that make up the tree, largest first. It has one hash
for each bit set in the size and is all that appending needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(record: bytes) -> bytes:
    """The hash of a leaf: SHA-256(0x00 || record)."""
    return hashlib.sha256(b"\x00" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree. `size` is the number of leaves."""

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count() or any(len(peak) != HASH_BYTES for peak in self.peaks):
            raise ValueError(f"{len(self.peaks)} peaks do not make a tree of {size} leaves")

    def append(self, leaf: bytes) -> None:
        """Add a leaf by its hash; every pair of equal subtrees at the edge becomes one."""
        peaks, old = self.peaks, self.size
        while old & 1:
            leaf = node_hash(peaks.pop(), leaf)
            old >>= 1
        peaks.append(leaf)
        self.size += 1

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
