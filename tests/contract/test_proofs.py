"""What every engine shows of its log: the same roots and proofs, for every size, that hold for the records it has."""

from __future__ import annotations

from itertools import cycle

import pytest

from eventjobs.store.merkle import leaf_hash
from eventjobs.store.proofs import proves_consistency, proves_inclusion
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

SIZES = [1, 2, 3, 127, 128, 255, 256, 257, 300, 511, 512, 513, 767, 800]
"""Around the sizes at which nodes are kept."""


def filled(engine, commit: int = 800) -> Driver:
    """800 jobs, `commit` of them a transaction."""
    driver = Driver(engine)
    for first in range(1, 801, commit):
        driver.execute(*[b.enqueue(b.an_id(number)) for number in range(first, min(first + commit, 801))])
    return driver


def test_every_engine_gives_the_same_proofs(every_engine):
    """Heads, roots, record texts and proofs do not depend on the engine, nor on how the records were committed."""
    shown = []
    for commit, engine in zip(cycle((800, 77)), every_engine.values(), strict=False):
        filled(engine, commit)
        with engine.read() as reader:
            shown.append(
                {
                    "head": reader.head(),
                    "roots": [reader.root(size) for size in SIZES],
                    "texts": [reader.record_text(position) for position in (0, 1, 256, 800, 801)],
                    "inclusion": [reader.inclusion_proof(p, size) for size in SIZES for p in SIZES if p <= size],
                    "consistency": [reader.consistency_proof(s, size) for size in SIZES for s in SIZES if s <= size],
                }
            )
    assert len(shown) > 1 and all(each == shown[0] for each in shown)
    assert shown[0]["roots"][-1] == shown[0]["head"].root
    assert [text is None for text in shown[0]["texts"]] == [True, False, False, False, True]


def test_proofs_hold_for_the_records(engine):
    """Each record's text is shown at its position, and each earlier tree as the beginning of each later one."""
    filled(engine, 256)
    with engine.read() as reader:
        root = {size: reader.root(size) for size in [0, *SIZES]}
        for size in SIZES:
            for first in [0, *SIZES]:
                if first > size:
                    continue
                proof = reader.consistency_proof(first, size)
                assert proves_consistency(first, root[first], size, root[size], proof)
                if first:
                    leaf = leaf_hash(reader.record_text(first))
                    assert proves_inclusion(leaf, first, size, reader.inclusion_proof(first, size), root[size])


def test_a_transaction_shows_its_own_appends(engine):
    """Within a transaction the tree has what it appended so far, kept nodes and all; an abort takes them back."""
    filled(engine)
    with engine.read() as reader:
        before = reader.root(800)
    transaction = engine.begin()
    for number in range(801, 1_100):
        transaction.append(None, b.enqueued(), b.an_id(number), b.at(1), b.PRODUCER_ACTOR, b.PAYLOAD)
    assert transaction.root(1_099) == transaction.head().root
    assert transaction.root(800) == before
    leaf = leaf_hash(transaction.record_text(900))
    proof = transaction.inclusion_proof(900, 1_099)
    assert proves_inclusion(leaf, 900, 1_099, proof, transaction.head().root)
    engine.abort()
    with engine.read() as reader:
        assert reader.root(800) == before == reader.head().root


@pytest.mark.parametrize("ask", [lambda r: r.inclusion_proof(1, 0), lambda r: r.consistency_proof(1, 0)])
def test_an_empty_log_proves_nothing(engine, ask):
    """There is no record in it and no tree before it."""
    with engine.read() as reader:
        assert reader.root(0) == reader.head().root
        with pytest.raises(ValueError, match="records"):
            ask(reader)


def test_proofs_are_there_again(reopen):
    """What was kept is used by the next process."""
    engine = reopen()
    filled(engine, 300)
    with engine.read() as reader:
        shown = reader.inclusion_proof(3, 800)
    driver = Driver(reopen())
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(801, 1_100)])
    with driver.engine.read() as reader:
        assert reader.inclusion_proof(3, 800) == shown
        assert reader.root(1_099) == reader.head().root
