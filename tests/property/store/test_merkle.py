"""The frontier against the definition of RFC 6962, section 2.1, written down as it stands there."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.store.merkle import Frontier, leaf_hash

leaves = st.lists(st.binary(max_size=8), max_size=70)


def tree_hash(entries: list[bytes]) -> bytes:
    """MTH: split at the largest power of two below the size."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return hashlib.sha256(b"\x01" + tree_hash(entries[:split]) + tree_hash(entries[split:])).digest()


@given(leaves)
def test_the_root_is_that_of_the_definition(entries):
    """Growing leaf by leaf gives the tree's root, and one peak for each bit of the size."""
    frontier = Frontier()
    for entry in entries:
        frontier.append(leaf_hash(entry))
    assert frontier.root() == tree_hash(entries)
    assert (frontier.size, len(frontier.peaks)) == (len(entries), len(entries).bit_count())


@given(leaves, st.integers(min_value=0, max_value=70))
def test_a_stored_frontier_goes_on_where_it_stopped(entries, stop):
    """A frontier made anew from size and peaks grows to the same root."""
    frontier = Frontier()
    for entry in entries[:stop]:
        frontier.append(leaf_hash(entry))
    frontier = Frontier(frontier.size, tuple(frontier.peaks))
    for entry in entries[stop:]:
        frontier.append(leaf_hash(entry))
    assert frontier.root() == tree_hash(entries)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=40), st.data())
def test_every_leaf_counts(entries, data):
    """A leaf that is changed, dropped or swapped with a different one changes the root."""
    place = data.draw(st.integers(0, len(entries) - 1))
    before, after = entries[:place], entries[place + 1 :]
    others = [[*before, entries[place] + b"!", *after], before + after]
    if place and entries[place] != entries[place - 1]:
        others.append([*before[:-1], entries[place], before[-1], *after])
    roots = set()
    for each in [entries, *others]:
        frontier = Frontier()
        for entry in each:
            frontier.append(leaf_hash(entry))
        roots.add(frontier.root())
    assert len(roots) == 1 + len(others)
