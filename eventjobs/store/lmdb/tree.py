"""Keeping nodes of the tree beside the log, and making the table anew where it is missing or behind."""

from __future__ import annotations

from collections.abc import Iterable

import lmdb
import structlog

from eventjobs.store.codec import seal, unseal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.reader import LmdbReader
from eventjobs.store.lmdb.tables import TREE_KEY, Tables, decode_progress, encode_progress, node_key
from eventjobs.store.merkle import NODE_LEVELS, Frontier, Node, leaf_hash

TREE_VERSION = 1
"""Version of the rule by which nodes are kept. With a higher one the table is made anew."""
CHUNK_RECORDS = 1 << NODE_LEVELS
"""Records read at once."""

log = structlog.get_logger("eventjobs.store")


def covered(size: int) -> int:
    """How many of the first `size` records lie under kept nodes."""
    return size >> NODE_LEVELS << NODE_LEVELS


def keep_nodes(tables: Tables, txn: lmdb.Transaction, nodes: Iterable[Node], size: int) -> None:
    """Keep the nodes that were completed up to position `size`."""
    for level, index, digest in nodes:
        key = node_key(level, index)
        txn.put(key, seal(key, digest), db=tables.tree)
    txn.put(TREE_KEY, seal(TREE_KEY, encode_progress(TREE_VERSION, covered(size))), db=tables.meta)


def complete_tree(env: lmdb.Environment, tables: Tables) -> bool:
    """Make the table of nodes anew if it is of an older rule or does not cover the log; whether it had to be.

    One transaction, so that an interruption leaves the store as it was. Raises StoreError for a table newer than this
    code, Corrupt when the records are not those that the store's head stands for.
    """
    with env.begin(write=True) as txn:
        frontier = LmdbReader(tables, txn).stored_head().frontier
        if not _is_stale(tables, txn, frontier.size):
            return False
        if frontier.size:
            log.info("rebuilding_tree", records=frontier.size)
        txn.drop(tables.tree, delete=False)
        anew = _from_records(tables, txn, frontier.size)
        if anew.peaks != frontier.peaks:
            raise Corrupt("log: the records are not those that the store's head stands for")
        keep_nodes(tables, txn, (), frontier.size)
    return True


def _is_stale(tables: Tables, txn: lmdb.Transaction, size: int) -> bool:
    stored = txn.get(TREE_KEY, db=tables.meta)
    if stored is None:
        return True
    version, checkpoint = decode_progress(unseal(TREE_KEY, stored, "meta"))
    if version > TREE_VERSION:
        raise StoreError(f"the tree has version {version}, this eventjobs knows {TREE_VERSION}; use a newer one")
    return (version, checkpoint) != (TREE_VERSION, covered(size))


def _from_records(tables: Tables, txn: lmdb.Transaction, size: int) -> Frontier:
    """Keep every node over the first `size` records; the frontier over them."""
    frontier, reader = Frontier(), LmdbReader(tables, txn)
    while frontier.size < size:
        for text in reader.record_texts(frontier.size, CHUNK_RECORDS):
            if nodes := frontier.append(leaf_hash(text)):
                keep_nodes(tables, txn, nodes, frontier.size)
    return frontier
