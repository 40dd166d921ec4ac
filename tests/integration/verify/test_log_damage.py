"""Damage to the log itself: each sort is found and named, and what is not touched by it is said to be sound."""

from __future__ import annotations

import msgspec
import pytest

from eventjobs.store.contract import Head
from eventjobs.store.lmdb.tables import node_key
from eventjobs.store.merkle import Frontier, leaf_hash
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools.verify.report import Outcome, Report

MIDDLE = (300).to_bytes(8)


def faults(report: Report) -> dict[str, list[str]]:
    """The sorts of faults of each check that has some."""
    return {check.name: [each.sort for each in check.faults] for check in report.checks if check.faults}


def only_fault(report: Report, check: str, sort: str) -> str:
    """The text of the one fault there is, which must be of this check and sort."""
    assert report.outcome is Outcome.DAMAGED
    assert faults(report) == {check: [sort]}
    return next(each for each in report.checks if each.name == check).faults[0].text


def size_of(store) -> int:
    with store.raw() as database:
        return len(database("log").rows())


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("place", [0, 3, 4, 100, -1])
def test_a_flipped_bit_in_a_record(store, place, quick):
    """In its checksum or its text: the record is named, all before it pass, and all other blocks are the head's."""
    with store.raw() as database:
        database("log").flip(MIDDLE, place)
    report = store.verify(quick=quick)
    assert only_fault(report, "records", "record_damaged") == "position 300 does not match its checksum"
    assert report.first_bad == 300
    size = size_of(store)
    assert "Before position 300 every record passes every check that was made." in report.said
    proved = size if place in (0, 3) else size - 256  # in its checksum alone, the record itself is still proved
    assert (f"{proved:,} of {size:,} records are, byte for byte, those" in " ".join(report.said)) == (proved < size)


def test_a_flipped_bit_in_the_newest_record(store):
    """In the last block, which no kept node stands for, as much is proved as the head's own parts allow."""
    size = size_of(store)
    with store.raw() as database:
        database("log").flip(size.to_bytes(8))
    report = store.verify()
    assert report.first_bad == size
    assert faults(report) == {"records": ["record_damaged"]}
    proved = size - (size & -size)
    assert f"{proved:,} of {size:,} records are" in " ".join(report.said)


@pytest.mark.parametrize("quick", [True, False])
def test_a_missing_record(store, quick):
    """A hole is named with its position."""
    with store.raw() as database:
        database("log").delete(MIDDLE)
    report = store.verify(quick=quick)
    assert report.first_bad == 300
    assert "position 300 is missing" in only_fault(report, "records", "record_missing")


def test_a_missing_stretch(store):
    """More than a block: the hole is named as one, and what follows it is looked at all the same."""
    with store.raw() as database:
        for position in range(200, 600):
            database("log").delete(position.to_bytes(8))
        database("log").flip((700).to_bytes(8))
    report = store.verify(quick=True)
    (records,) = [check for check in report.checks if check.name == "records"]
    assert [each.text for each in sorted(records.faults, key=lambda each: each.position)] == [
        "positions 200 to 256 are missing, or cannot be reached",
        "positions 257 to 512 are missing, or cannot be reached",
        "positions 513 to 599 are missing, or cannot be reached",
        "position 700 does not match its checksum",
    ]
    assert report.first_bad == 200


def test_a_record_altered_with_its_checksum(store):
    """The block it lies in is named, for the tree was made of something else; all others are proved."""
    with store.raw() as database:
        log = database("log")
        log.put(MIDDLE, log.rows()[MIDDLE].replace(b"1767", b"1768", 1))
    size = size_of(store)
    report = store.verify(quick=True)
    text = only_fault(report, "tree", "records_altered")
    assert text.startswith("positions 257 to 512 are not what the tree was made of")
    assert f"{size - 256:,} of {size:,} records are, byte for byte" in " ".join(report.said)


@pytest.mark.parametrize("node_too", [False, True])
def test_an_actor_who_was_changed(store, node_too):
    """Nothing but the tree can tell; with the node changed as well, the head still does."""
    with store.raw() as database:
        log, tree = database("log"), database("tree")
        position = next(key for key, text in log.rows().items() if b'"operator-1"' in text)
        log.put(position, log.rows()[position].replace(b"operator-1", b"operator-2"))
        block = (int.from_bytes(position) - 1) // 256
        if node_too:
            frontier = Frontier()
            for text in list(log.rows().values())[256 * block : 256 * block + 256]:
                frontier.append(leaf_hash(text))
            tree.put(node_key(8, block), frontier.root())
    report = store.verify()
    text = only_fault(report, "tree", "records_altered")
    first = 1 + 256 * block
    assert report.first_bad <= first
    if not node_too:
        assert text.startswith(f"positions {first} to {first + 255} are")


def test_records_that_changed_places(store):
    """Two records swapped, checksums and all: both say where they belong."""
    one, other = (290).to_bytes(8), (291).to_bytes(8)
    with store.raw() as database:
        log = database("log")
        rows = log.rows()
        log.put(one, rows[other])
        log.put(other, rows[one])
    report = store.verify()
    assert report.first_bad == 257  # where the tree's block begins
    moved = [each.text for check in report.checks for each in check.faults if each.sort == "record_moved"]
    assert moved == [
        "the record at position 290 says that it belongs at 291: it was moved",
        "the record at position 291 says that it belongs at 290: it was moved",
    ]
    assert "records_altered" in faults(report)["tree"]


@pytest.mark.parametrize("quick", [True, False])
def test_a_tail_cut_off_the_log_alone(store, quick):
    """The head still says how long the log was."""
    size = size_of(store)
    with store.raw() as database:
        for position in range(size - 9, size + 1):
            database("log").delete(position.to_bytes(8))
    report = store.verify(quick=quick)
    assert f"the log ends at position {size - 10}, but its head says {size}" in str(report)
    assert faults(report)["records"] == ["log_cut"]
    assert report.first_bad == size - 9


def test_a_log_longer_than_its_head(store):
    """Records that were added without the head are named."""
    size = size_of(store)
    with store.raw() as database:
        log = database("log")
        log.put((size + 1).to_bytes(8), log.rows()[size.to_bytes(8)])
    report = store.verify()
    assert "log_prolonged" in faults(report)["records"]


def test_a_store_put_back_to_an_earlier_day(store, new_store):
    """A whole store with its tail cut off is sound by itself; the head that was kept knows better."""
    kept = store.head()
    shorter = new_store(jobs=150)
    assert shorter.verify().outcome is Outcome.SOUND
    report = shorter.verify(kept)
    size = shorter.head().size
    text = only_fault(report, "kept head", "log_cut")
    told = f"the log has {size:,} records, but the head that was kept stands for {kept.size:,}"
    assert text == f"{told}: its tail was cut off"


@pytest.mark.parametrize("quick", [True, False])
def test_a_log_rewritten_as_a_whole(store, new_store, quick):
    """Every record, checksum, node, root and table made anew around another payload: only the kept head tells."""
    kept = store.head()
    forged = new_store(subject="hullo")
    assert forged.head().size == kept.size
    assert forged.verify(quick=quick).outcome is Outcome.SOUND
    text = only_fault(forged.verify(kept, quick), "kept head", "log_rewritten")
    assert text.startswith(f"the first {kept.size:,} records are not those of the head that was kept")


@pytest.mark.parametrize("size", [0, 1, 256, 257, 300, 512, 513])
def test_heads_of_every_age(store, size):
    """A log that went on begins with each head that was kept on the way, and with no other of that size."""
    with store.engine() as engine, engine.read() as reader:
        right = reader.root(size)
    assert store.verify(Head(size, right), quick=True).outcome is Outcome.SOUND
    wrong = bytes([right[0] ^ 1]) + right[1:]
    only_fault(store.verify(Head(size, wrong), quick=True), "kept head", "log_rewritten")


def test_a_kept_head_beside_damage(store):
    """A damaged record does not make the log another one: the nodes still lead to the kept head."""
    with store.engine() as engine, engine.read() as reader:
        before, after = Head(200, reader.root(200)), Head(600, reader.root(600))
    with store.raw() as database:
        database("log").flip(MIDDLE)
    for kept in (before, after):
        report = store.verify(kept, quick=True)
        assert faults(report) == {"records": ["record_damaged"]}
    with store.engine() as engine, engine.read() as reader:
        within = Head(310, bytes(32))
    (kept_check,) = [each for each in store.verify(within, quick=True).checks if each.name == "kept head"]
    assert kept_check.outcome is Outcome.UNCHECKED and "cannot be told" in kept_check.unchecked


def test_nodes_that_are_damaged(store):
    """A node that fails its checksum, is gone, another hash, or too many: named, and the records are still proved."""
    for harm, sort, words in (
        (lambda tree: tree.flip(node_key(8, 1)), "node_damaged", "node 1 of level 8"),
        (lambda tree: tree.delete(node_key(8, 1)), "node_missing", "node 1 of level 8 is missing"),
        (lambda tree: tree.put(node_key(8, 1), b"short"), "node_missing", "or is no hash"),
        (lambda tree: tree.put(node_key(8, 1), bytes(32)), "node_wrong", "node 1 of level 8 is not the root over"),
        (lambda tree: tree.put(node_key(8, 99), bytes(32)), "nodes_extra", "1 node too many"),
    ):
        with store.raw() as database:
            rows = database("tree").rows()
            harm(database("tree"))
        report = store.verify(quick=True)
        assert words in only_fault(report, "tree", sort)
        assert next(each for each in report.checks if each.name == "tree").facts.endswith("is the head's")
        with store.raw() as database:
            tree = database("tree")
            for key in tree.rows().keys() - rows.keys():
                tree.delete(key)
            for key, value in rows.items():
                tree.put(key, value)
    assert store.verify(quick=True).outcome is Outcome.SOUND


def test_a_table_of_nodes_that_is_out_of_date(store):
    """It is no damage: the next start makes it anew. The records are held against the head without it."""
    with store.raw() as database:
        database("meta").delete(b"tree")
    report = store.verify()
    assert report.outcome is Outcome.UNCHECKED
    assert [check.name for check in report.checks if check.unchecked] == ["tree"]


@pytest.mark.parametrize("quick", [True, False])
def test_a_damaged_head(store, quick):
    """Without its head the log is still looked at, record by record."""
    with store.raw() as database:
        database("meta").flip(b"head")
    report = store.verify(quick=quick)
    assert faults(report)["head"] == ["head_damaged"]
    assert f"the checksums of {size_of(store):,} records match" in str(report)


def test_a_head_of_other_records(store):
    """A head that was altered with its checksum is found, whether in a hash, its size or its time."""
    with store.raw() as database:
        right = database("meta").rows()[b"head"]
    size, time, peaks = msgspec.msgpack.decode(right)
    for altered, check, sort in (
        ((size, time, [*peaks[:-1], bytes(32)]), "tree", "records_altered"),
        ((size, time, [bytes(32), *peaks[1:]]), "tree", "records_altered"),
        ((size, time + 1, peaks), "head", "head_wrong"),
    ):
        with store.raw() as database:
            database("meta").put(b"head", msgspec.msgpack.encode(altered))
        only_fault(store.verify(), check, sort)
    with store.raw() as database:
        database("meta").put(b"head", b"\x91\x01")
    assert faults(store.verify(quick=True))["head"] == ["head_damaged"]


def test_a_key_that_is_no_position(store):
    """Something that somebody put among the records."""
    with store.raw() as database:
        database("log").put(b"\0\0\0\0\0\0\0\7x", b"{}")
    assert "which is no position" in only_fault(store.verify(quick=True), "records", "foreign_key")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b'"format_version":1', b'"format_version":2'), "use that version"),
        ((b'"type":"lease_renewed"', b'"type":"lease_blessed"'), "use that version"),
    ],
)
def test_a_format_that_is_not_known(new_store, change, words):
    """A newer eventjobs may have written it: that is no damage, but it cannot be looked at."""
    store = new_store(jobs=0)
    with store.engine() as engine:
        driver = Driver(engine)
        driver.execute(b.enqueue())
        driver.lease(b.lease())
        driver.execute(b.renew())
    rewrite(store, 3, *change)
    report = store.verify()
    assert report.outcome is Outcome.UNCHECKED
    (records,) = [check for check in report.checks if check.name == "records"]
    assert words in records.unchecked


@pytest.mark.parametrize(
    "change",
    [
        (b"{", b"["),
        (b'"version":3', b'"version":"3"'),
        (b'"token":1', b'"taken":1'),
        (b'"type":"worker"', b'"type":"x"'),
    ],
)
def test_a_record_that_is_no_record(new_store, change):
    """With the right checksum and in the tree, but without a meaning."""
    store = new_store(jobs=0)
    with store.engine() as engine:
        driver = Driver(engine)
        driver.execute(b.enqueue())
        driver.lease(b.lease())
        driver.execute(b.renew())
    rewrite(store, 3, *change)
    report = store.verify()
    assert faults(report)["records"] == ["record_malformed"]
    assert report.first_bad == 3


def rewrite(store, position: int, old: bytes, new: bytes) -> None:
    """Change a record of a small log, and make its checksum and the head anew."""
    with store.raw() as database:
        log, meta = database("log"), database("meta")
        text = log.rows()[position.to_bytes(8)]
        assert old in text
        log.put(position.to_bytes(8), text.replace(old, new, 1))
        frontier = Frontier()
        for text in log.rows().values():
            frontier.append(leaf_hash(text))
        _, time, _ = msgspec.msgpack.decode(meta.rows()[b"head"])
        meta.put(b"head", msgspec.msgpack.encode((frontier.size, time, frontier.peaks)))
