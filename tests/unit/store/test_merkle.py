"""The tree over the log: the published vectors of Certificate Transparency, and a frontier that cannot be wrong."""

from __future__ import annotations

import pytest

from eventjobs.store.merkle import EMPTY_ROOT, Frontier, leaf_hash, node_hash

LEAVES = [
    bytes.fromhex(text)
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
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""By size, from the test data that RFC 6962 logs and their clients share."""


@pytest.mark.parametrize("size", range(9))
def test_the_published_roots_come_out(size):
    """The root over the first leaves is that of the published vectors."""
    frontier = Frontier()
    for leaf in LEAVES[:size]:
        frontier.append(leaf_hash(leaf))
    assert frontier.size == size
    assert frontier.root().hex() == ROOTS[size]


def test_the_empty_tree_is_the_hash_of_nothing():
    """The root of no leaves is SHA-256 of the empty text."""
    assert Frontier().root() == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == ROOTS[0]


def test_leaves_and_nodes_cannot_be_mistaken_for_each_other():
    """A leaf that looks like two hashes has another hash than the node over them."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)


@pytest.mark.parametrize(
    ("size", "peaks"),
    [(0, [bytes(32)]), (1, []), (3, [bytes(32)]), (4, [bytes(32)] * 2), (1, [bytes(31)]), (1, [bytes(33)])],
)
def test_peaks_that_make_no_tree_are_refused(size, peaks):
    """A frontier has one hash of 32 bytes for each bit set in its size."""
    with pytest.raises(ValueError, match=f"do not make a tree of {size} leaves"):
        Frontier(size, peaks)


def test_a_copy_grows_by_itself():
    """Appending to a copy leaves the original as it was."""
    frontier = Frontier()
    frontier.append(leaf_hash(b"a"))
    root, copy = frontier.root(), frontier.copy()
    copy.append(leaf_hash(b"b"))
    assert (frontier.size, frontier.root()) == (1, root)
    assert (copy.size, copy.root()) == (2, node_hash(leaf_hash(b"a"), leaf_hash(b"b")))
