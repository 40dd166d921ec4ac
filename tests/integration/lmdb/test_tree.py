"""The nodes that are kept beside the log: written with it, made anew where they are not, and read with care."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from eventjobs.store.codec import seal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.tables import TREE_KEY, encode_progress, node_key
from eventjobs.store.merkle import Frontier, leaf_hash, node_hash
from eventjobs.testing import builders as b

NODES = [node_key(8, 0), node_key(8, 1), node_key(8, 2)]


def fill(store, records: int) -> None:
    """So many jobs, in commits of 100."""
    store.open()
    while store.jobs < records:
        numbers = range(store.jobs + 1, min(store.jobs + 100, records) + 1)
        with store.commit() as handler:
            handler.enqueue([b.enqueue(b.an_id(number)) for number in numbers])
        store.jobs = numbers[-1]


def nodes(store) -> dict[bytes, bytes]:
    return store.rows().get("tree", {})


def change_meta(store, value: bytes | None) -> None:
    with store.raw(write=True) as txn:
        meta = store.database("meta", txn)
        if value is None:
            txn.delete(TREE_KEY, db=meta)
        else:
            txn.put(TREE_KEY, seal(TREE_KEY, value), db=meta)


def test_every_256th_record_keeps_a_node(store):
    """It is the root over its 256 records, and there are no others."""
    fill(store, 800)
    with store.engine.read() as reader:
        leaves = [leaf_hash(reader.record_text(position)) for position in range(257, 513)]
    tree = Frontier()
    for leaf in leaves:
        tree.append(leaf)
    found = nodes(store)
    assert list(found) == NODES
    assert found[NODES[1]] == seal(NODES[1], tree.root())


def test_nodes_of_higher_levels_are_kept():
    """The 65,536th leaf completes one of level 8 and one of level 16; the 256th of those again both."""
    tree, kept = Frontier(), []
    for number in range(1 << 16):
        kept += tree.append(leaf_hash(b"%d" % number))
    assert [(level, index) for level, index, _ in kept] == [*((8, index) for index in range(256)), (16, 0)]
    assert kept[-1][2] == tree.root()
    assert tree.append(leaf_hash(b"more")) == ()
    left = [digest for _, _, digest in kept[:256]]
    while len(left) > 1:
        left = [node_hash(*pair) for pair in zip(left[::2], left[1::2], strict=True)]
    assert left == [tree.peaks[0]]


@pytest.mark.parametrize(
    "progress",
    [None, encode_progress(0, 768), encode_progress(1, 512), encode_progress(1, 1024)],
    ids=["none", "older", "behind", "ahead"],
)
def test_a_table_that_does_not_fit_is_made_anew(store, progress):
    """Whether it was never made, is of an older rule, behind the log or ahead of it; with nothing of it left."""
    fill(store, 800)
    right, stray = nodes(store), node_key(8, 77)
    change_meta(store, progress)
    with store.raw(write=True) as txn:
        tree = store.database("tree", txn)
        txn.put(stray, seal(stray, bytes(32)), db=tree)
        txn.delete(NODES[1], db=tree)
    with capture_logs() as logs:
        store.open()
    assert [line["records"] for line in logs if line["event"] == "rebuilding_tree"] == [800]
    assert nodes(store) == right
    with capture_logs() as logs:
        store.open()
    assert logs == []


def test_a_store_without_the_table_gets_it(store):
    """One that was written before nodes were kept."""
    fill(store, 300)
    right = store.rows()
    change_meta(store, None)
    with store.raw(write=True) as txn:
        txn.drop(store.database("tree", txn), delete=True)
    assert nodes(store) == {}
    fill(store, 300)
    assert store.rows() == right


def test_a_small_store_is_not_made_anew_each_time(store):
    """Below 256 records there is nothing to keep, and that is known."""
    fill(store, 3)
    with capture_logs() as logs:
        store.open()
    assert logs == []
    assert nodes(store) == {}


def test_a_newer_table_is_refused_untouched(store):
    """It may mean something this code does not know."""
    fill(store, 300)
    change_meta(store, encode_progress(99, 256))
    before = store.rows()
    with pytest.raises(StoreError, match="the tree has version 99"):
        store.open()
    assert store.rows() == before


def test_a_table_is_not_made_from_forged_records(store):
    """A record that was changed, checksum and all, is found when the nodes are made anew; the store is left alone."""
    fill(store, 300)
    key = (5).to_bytes(8)
    with store.raw(write=True) as txn:
        log = store.database("log", txn)
        text = txn.get(key, db=log)[4:].replace(b"email", b"EMAIL")
        txn.put(key, seal(key, text), db=log)
    store.open()  # nothing looks there
    change_meta(store, None)
    before = store.rows()
    with pytest.raises(Corrupt, match="not those that the store's head stands for"):
        store.open()
    assert store.rows() == before


def test_a_hole_is_found_when_the_table_is_made(store):
    """And named."""
    fill(store, 300)
    change_meta(store, None)
    with store.raw(write=True) as txn:
        txn.delete((7).to_bytes(8), db=store.database("log", txn))
    with pytest.raises(Corrupt, match="log: position 7 is missing"):
        store.open()


def test_a_damaged_or_missing_node_is_named(store):
    """A proof that needs it says which it is; others are given."""
    fill(store, 800)
    for harm, words in (
        (lambda txn, tree: txn.put(NODES[0], b"\0" * 36, db=tree), "tree: the value under key " + NODES[0].hex()),
        (lambda txn, tree: txn.delete(NODES[0], db=tree), "tree: node 0 of level 8 is missing"),
    ):
        with store.raw(write=True) as txn:
            harm(txn, store.database("tree", txn))
        store.open()
        with store.engine.read() as reader:
            with pytest.raises(Corrupt, match=words):
                reader.inclusion_proof(700, 800)
            assert reader.inclusion_proof(3, 200)


def test_a_proof_does_not_step_over_a_hole(store):
    """Where records are hashed for a proof, a missing one is named."""
    fill(store, 800)
    with store.raw(write=True) as txn:
        txn.delete((790).to_bytes(8), db=store.database("log", txn))
    store.open()
    with store.engine.read() as reader, pytest.raises(Corrupt, match="log: position 790 is missing"):
        reader.inclusion_proof(785, 800)
