"""Proofs for trees of any size: every true one is accepted, no altered one is, and all are short."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.store.merkle import leaf_hash, node_hash
from eventjobs.store.proofs import consistency_proof, inclusion_proof, proves_consistency, proves_inclusion, root_of

SIZE_MAX = 300

two_sizes = st.tuples(st.integers(1, SIZE_MAX), st.integers(1, SIZE_MAX)).map(sorted)
a_hash = st.binary(min_size=32, max_size=32)


def leaf(index: int) -> bytes:
    return leaf_hash(b"record %d" % index)


@cache
def subtree(level: int, index: int) -> bytes:
    if level == 0:
        return leaf(index)
    return node_hash(subtree(level - 1, 2 * index), subtree(level - 1, 2 * index + 1))


@cache
def root(size: int) -> bytes:
    return root_of(subtree, 0, size)


def altered(proof: list[bytes], data: st.DataObject) -> list[bytes]:
    """The proof with a hash more, less, changed, or with two different ones in each other's place."""
    ways = ["more"] + ["less", "changed"] * bool(proof) + ["swapped"] * (len(set(proof)) > 1)
    way = data.draw(st.sampled_from(ways))
    place = data.draw(st.integers(0, max(0, len(proof) - 1)))
    if way == "more":
        return [*proof[:place], data.draw(a_hash), *proof[place:]]
    if way == "less":
        return proof[:place] + proof[place + 1 :]
    if way == "changed":
        bit = data.draw(st.integers(0, 255))
        changed = (int.from_bytes(proof[place]) ^ 1 << bit).to_bytes(32)
        return [*proof[:place], changed, *proof[place + 1 :]]
    other = next(index for index in range(len(proof)) if proof[index] != proof[place])
    swapped = list(proof)
    swapped[place], swapped[other] = proof[other], proof[place]
    return swapped


@given(two_sizes, st.data())
def test_a_record_is_shown_in_its_tree(sizes, data):
    """By at most one hash a level; not by an altered proof, nor for another record, place, size or root."""
    position, size = sizes
    proof = inclusion_proof(subtree, position, size)
    assert len(proof) <= size.bit_length()
    mine = leaf(position - 1)
    assert proves_inclusion(mine, position, size, proof, root(size))
    assert not proves_inclusion(mine, position, size, altered(proof, data), root(size))
    assert not proves_inclusion(leaf(position), position, size, proof, root(size))
    other = data.draw(st.integers(1, SIZE_MAX))
    assert proves_inclusion(mine, other, size, proof, root(size)) == (other == position)
    assert not proves_inclusion(mine, position, size, proof, root(size + 1))


@given(two_sizes, st.data())
def test_a_tree_is_shown_to_begin_another(sizes, data):
    """By at most two hashes a level; not by an altered proof, nor for another size or root on either side."""
    old, size = sizes
    proof = consistency_proof(subtree, old, size)
    assert len(proof) <= size.bit_length() + 1
    assert proves_consistency(old, root(old), size, root(size), proof)
    assert not proves_consistency(old, root(old), size, root(size), altered(proof, data))
    assert not proves_consistency(old, root(old + 1), size, root(size), proof)
    assert not proves_consistency(old, root(old), size, root(size + 1), proof)
    assert not proves_consistency(size + 1, root(size + 1), size, root(size), proof)


@given(two_sizes, st.data())
def test_a_rewritten_beginning_is_never_shown(sizes, data):
    """When a record of the old tree is another in the new one, no proof made from the new one holds."""
    old, size = sizes
    changed = data.draw(st.integers(0, old - 1))

    def rewritten(level: int, index: int) -> bytes:
        if level == 0:
            return leaf_hash(b"forged") if index == changed else leaf(index)
        if not index << level <= changed < index + 1 << level:
            return subtree(level, index)
        return node_hash(rewritten(level - 1, 2 * index), rewritten(level - 1, 2 * index + 1))

    proof = consistency_proof(rewritten, old, size)
    assert not proves_consistency(old, root(old), size, root_of(rewritten, 0, size), proof)
