"""Proofs about the tree over the log, as RFC 6962, section 2.1, makes them and RFC 9162, section 2.1, checks them.

An inclusion proof shows that a record is in a tree, a consistency proof that one tree is the beginning of another;
each is a list of hashes, one or two a level. Making them needs a look-up of complete subtrees, `subtree(level, index)`:
the root over the 2**level records after the first index * 2**level. Checking them needs nothing but the roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from eventjobs.store.merkle import EMPTY_ROOT, node_hash

Subtree = Callable[[int, int], bytes]


def root_of(subtree: Subtree, begin: int, end: int) -> bytes:
    """The root over the records with positions above `begin`, up to `end`.

    `begin` is a multiple of a power of two that is not below end - begin: the range is a subtree, perhaps of the edge.
    """
    peaks = list(_peaks(subtree, begin, end))
    if not peaks:
        return EMPTY_ROOT
    root = peaks.pop()
    while peaks:
        root = node_hash(peaks.pop(), root)
    return root


def _peaks(subtree: Subtree, begin: int, end: int) -> Iterator[bytes]:
    """The complete subtrees of a range, largest first."""
    while begin < end:
        level = (end - begin).bit_length() - 1
        yield subtree(level, begin >> level)
        begin += 1 << level


def inclusion_proof(subtree: Subtree, position: int, size: int) -> list[bytes]:
    """The hashes that lead from the record at a position (from 1) to the root over the first `size` records.

    Raises ValueError when there is no such record among them.
    """
    if not 1 <= position <= size:
        raise ValueError(f"there is no position {position} among {size} records")
    proof, begin, end = [], 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if position <= middle:
            proof.append(root_of(subtree, middle, end))
            end = middle
        else:
            proof.append(root_of(subtree, begin, middle))
            begin = middle
    proof.reverse()
    return proof


def consistency_proof(subtree: Subtree, old_size: int, size: int) -> list[bytes]:
    """The hashes that lead from the root over the first `old_size` records to that over the first `size`.

    Empty when there is nothing to show: for equal sizes, and for an empty old tree, which begins every tree. Raises
    ValueError when the old tree is the larger one.
    """
    if not 0 <= old_size <= size:
        raise ValueError(f"a tree of {old_size} records is not the beginning of one of {size}")
    if old_size in (0, size):
        return []
    proof, begin, end = [], 0, size
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            proof.append(root_of(subtree, middle, end))
            end = middle
        else:
            proof.append(root_of(subtree, begin, middle))
            begin = middle
    if begin:  # else what is left is the old tree itself, whose root the other side has
        proof.append(root_of(subtree, begin, end))
    proof.reverse()
    return proof


def _split(size: int) -> int:
    """The largest power of two below a size of at least two."""
    return 1 << (size - 1).bit_length() - 1


def proves_inclusion(leaf: bytes, position: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the record with this leaf hash is at the position (from 1) in the tree of this size and root."""
    if not 1 <= position <= size:
        return False
    place, last = position - 1, size - 1
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            leaf = node_hash(sibling, leaf)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            leaf = node_hash(leaf, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and leaf == root


def proves_consistency(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the tree of `old_size` and `old_root` is the beginning of the one of `size` and `root`."""
    if not 0 <= old_size <= size:
        return False
    if old_size == size:
        return old_root == root and not proof
    if old_size == 0:
        return old_root == EMPTY_ROOT and not proof
    if not proof:
        return False
    path = list(proof) if old_size & (old_size - 1) else [old_root, *proof]
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and (old, new) == (old_root, root)


class ProvesItsLog:
    """What a reader shows of its log's tree, by looking up complete subtrees. Engines' readers are made of it."""

    def subtree(self, level: int, index: int) -> bytes:
        """The root over the 2**level records after the first index * 2**level, all of which are there."""
        raise NotImplementedError

    def root(self, size: int) -> bytes:
        return root_of(self.subtree, 0, size)

    def inclusion_proof(self, position: int, size: int) -> list[bytes]:
        return inclusion_proof(self.subtree, position, size)

    def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        return consistency_proof(self.subtree, old_size, size)
