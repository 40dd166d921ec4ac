"""Proofs about the tree: the published vectors of Certificate Transparency, made and checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eventjobs.store.merkle import EMPTY_ROOT, leaf_hash, node_hash
from eventjobs.store.proofs import (
    ProvesItsLog,
    consistency_proof,
    inclusion_proof,
    proves_consistency,
    proves_inclusion,
    root_of,
)

LEAVES = [
    leaf_hash(bytes.fromhex(text))
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
INCLUSION = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (6, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (3, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (2, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
"""By position and size."""
CONSISTENCY = {
    (1, 1): [],
    (1, 8): INCLUSION[1, 8],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
}
"""By the two sizes."""


def subtree(level: int, index: int) -> bytes:
    if level == 0:
        return LEAVES[index]
    return node_hash(subtree(level - 1, 2 * index), subtree(level - 1, 2 * index + 1))


def root(size: int) -> bytes:
    return root_of(subtree, 0, size)


@pytest.mark.parametrize(("position", "size"), INCLUSION)
def test_the_published_inclusion_proofs_come_out(position, size):
    """Each is made as published, and shows its record at its place and nowhere else."""
    proof = inclusion_proof(subtree, position, size)
    assert [each.hex() for each in proof] == INCLUSION[position, size]
    leaf = LEAVES[position - 1]
    shown = [place for place in range(1, size + 1) if proves_inclusion(leaf, place, size, proof, root(size))]
    assert shown == [position]


@pytest.mark.parametrize(("old_size", "size"), CONSISTENCY)
def test_the_published_consistency_proofs_come_out(old_size, size):
    """Each is made as published, and shows its own two trees."""
    proof = consistency_proof(subtree, old_size, size)
    assert [each.hex() for each in proof] == CONSISTENCY[old_size, size]
    assert proves_consistency(old_size, root(old_size), size, root(size), proof)
    others = [other for other in range(9) if other != old_size]
    assert not any(proves_consistency(other, root(other), size, root(size), proof) for other in others if proof)


def test_the_empty_tree_begins_every_tree():
    """Nothing has to be shown for it, and its root is the only one of size nought."""
    assert consistency_proof(subtree, 0, 8) == [] == consistency_proof(subtree, 0, 0)
    assert proves_consistency(0, EMPTY_ROOT, 8, root(8), [])
    assert proves_consistency(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])
    assert not proves_consistency(0, root(1), 8, root(8), [])
    assert not proves_consistency(0, EMPTY_ROOT, 8, root(8), [root(1)])


@pytest.mark.parametrize(
    ("make", "first", "size"),
    [
        (inclusion_proof, 0, 8),
        (inclusion_proof, 9, 8),
        (inclusion_proof, 1, 0),
        (consistency_proof, -1, 8),
        (consistency_proof, 8, 7),
    ],
)
def test_what_cannot_be_proved_is_not(make: Callable, first, size):
    """A position beyond the tree, and an old tree that is larger than the new one."""
    with pytest.raises(ValueError, match="records"):
        make(subtree, first, size)


@pytest.mark.parametrize(("position", "size"), [(0, 8), (9, 8), (-1, 8), (1, 0)])
def test_no_proof_shows_what_cannot_be(position, size):
    """A position out of bounds is not shown, whatever the hashes."""
    assert not proves_inclusion(LEAVES[0], position, size, [], LEAVES[0])


@pytest.mark.parametrize(("old_size", "size"), [(-1, 8), (8, 7), (3, 7)])
def test_no_hashes_show_nothing(old_size, size):
    """An empty proof is none, but where there is nothing to show."""
    assert not proves_consistency(old_size, root(3), size, root(7), [])


def test_a_reader_is_made_of_its_subtrees():
    """Whoever looks up subtrees has the proofs."""

    class Reader(ProvesItsLog):
        subtree = staticmethod(subtree)

    assert Reader().root(7) == root(7)
    assert Reader().inclusion_proof(3, 7) == inclusion_proof(subtree, 3, 7)
    assert Reader().consistency_proof(3, 7) == consistency_proof(subtree, 3, 7)
    with pytest.raises(NotImplementedError):
        ProvesItsLog().root(1)
