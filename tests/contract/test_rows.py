"""Tables of projections in every engine: keys of every shape, in order, from both sides, and counters."""

from __future__ import annotations

import hashlib
from random import Random

import pytest

from eventjobs.testing import builders as b

NAMES = ["a", "a-", "a.b", "aa", "A", "~", "\x01", "\x7f", "n" * 128]
NUMBERS = [0, 1, -1, 255, 256, -256, 2**32, -(2**32), 2**63 - 1, -(2**63)]


@pytest.fixture
def apply(open_engine_again, scripted):
    """Applies changes, each call one record in one commit; the engine and the projection hang on it."""
    engine = open_engine_again([scripted])
    numbers = iter(range(1, 10_000))

    def apply_changes(*changes):
        scripted.next = list(changes)
        transaction = engine.begin()
        transaction.append(None, b.enqueued(), b.an_id(next(numbers)), b.at(0), b.PRODUCER_ACTOR, None)
        engine.commit()

    apply_changes.engine = engine
    return apply_changes


def read_all(engine, table, *args, **kwargs):
    with engine.read() as reader:
        return list(reader.rows(table, *args, **kwargs))


def keys_of(scripted):
    """Many keys of every table, by a fixed seed."""
    random = Random(3)
    return {
        scripted.names: {(random.choice(NAMES), random.choice(NAMES), random.choice(NUMBERS)) for _ in range(200)},
        scripted.numbers: {(random.choice(NUMBERS), random.choice(NUMBERS)) for _ in range(60)},
        scripted.ids: {(b.an_id(random.randrange(2**40)), random.choice(NUMBERS)) for _ in range(60)},
        scripted.digests: {(hashlib.sha256(bytes([number])).digest(),) for number in range(60)},
    }


def test_rows_are_in_the_order_of_their_keys(apply, scripted):
    """Whatever order they were put in, rows come sorted by the parts of their keys, or the other way round."""
    for table, keys in keys_of(scripted).items():
        apply(*[(table, key, repr(key).encode()) for key in keys])
        wanted = [(key, repr(key).encode()) for key in sorted(keys)]
        assert read_all(apply.engine, table) == wanted
        assert read_all(apply.engine, table, reverse=True) == wanted[::-1]


def test_rows_by_prefix_and_beyond_a_key(apply, scripted):
    """A prefix takes the keys that start with these very parts; beyond is strict, and need not be a row."""
    random = Random(4)
    for table, keys in keys_of(scripted).items():
        apply(*[(table, key, b"") for key in keys])
        beyonds = random.sample(sorted(keys), 12)
        if len(table.key) == 3:
            beyonds += [("a", "\x01", 7), ("a", "zzz", 2**63 - 1), ("zz", "\x7f", -(2**63))]
        prefixes = {key[:length] for key in beyonds for length in range(len(table.key))}
        for prefix in sorted(prefixes):
            for beyond in [None, *[key for key in beyonds if key[: len(prefix)] == prefix]]:
                for reverse in (False, True):
                    wanted = [
                        key
                        for key in sorted(keys, reverse=reverse)
                        if key[: len(prefix)] == prefix
                        and (beyond is None or (key < beyond if reverse else key > beyond))
                    ]
                    found = read_all(apply.engine, table, prefix, beyond, reverse)
                    assert [key for key, _ in found] == wanted, (prefix, beyond, reverse)


def test_a_row_is_put_replaced_and_deleted(apply, scripted):
    """Bytes put, bytes replace, None deletes; a row that is not there is None."""
    table, key = scripted.names, ("q", "k", 7)

    def row():
        with apply.engine.read() as reader:
            return reader.row(table, key)

    assert row() is None
    for value in (b"one", b"", bytes(range(256)) * 100):
        apply((table, key, value))
        assert row() == value
    apply((table, key, None), (table, ("q", "k", 8), b"next"))
    assert row() is None and read_all(apply.engine, table) == [(("q", "k", 8), b"next")]
    apply((table, key, b"a"), (table, key, None), (table, key, b"z"))
    assert row() == b"z"


def test_counters_add_up(apply, scripted):
    """Deltas of any sign sum up over records and commits; an untouched counter is None; zero stays a row."""
    table = scripted.counts
    apply((table, ("x", 1), 5), (table, ("x", 1), -7), (table, ("y", -3), 2**62))
    apply((table, ("x", 1), 2), (table, ("y", -3), 2**62 - 1))
    with apply.engine.read() as reader:
        assert reader.row(table, ("x", 1)) == 0 and reader.row(table, ("z", 1)) is None
        assert list(reader.rows(table)) == [(("x", 1), 0), (("y", -3), 2**63 - 1)]
        assert list(reader.rows(table, ("y",), reverse=True)) == [(("y", -3), 2**63 - 1)]


def test_a_transaction_reads_its_own_rows_and_counters(open_engine_again, scripted):
    """Changes are visible to the next read in the same transaction, and gone after its abort."""
    engine = open_engine_again([scripted])
    transaction = engine.begin()
    for number, delta in ((1, 4), (2, -1)):
        scripted.next = [(scripted.counts, ("c", 0), delta), (scripted.names, ("a", "b", number), b"v")]
        transaction.append(None, b.enqueued(), b.an_id(number), b.at(0), b.PRODUCER_ACTOR, None)
        assert transaction.row(scripted.counts, ("c", 0)) == 4 + delta * (number == 2)
        assert len(list(transaction.rows(scripted.names, ("a",)))) == number
    engine.abort()
    assert read_all(engine, scripted.counts) == [] == read_all(engine, scripted.names)


def test_a_projection_is_told_each_record_once_in_order(open_engine_again, scripted):
    """It sees the job before and after, and the record between them."""
    engine = open_engine_again([scripted])
    transaction = engine.begin()
    job = None
    for event in (b.enqueued(), b.leased(), b.completed()):
        job = transaction.append(job, event, b.JOB_ID, b.at(1), b.WORKER_ACTOR, None)
    engine.commit()
    befores, records, afters = zip(*scripted.seen, strict=True)
    assert befores == (None, *afters[:-1]) and afters[-1] == job
    assert [(record.position, record.version, record.event.type) for record in records] == [
        (1, 1, "job_enqueued"),
        (2, 2, "job_leased"),
        (3, 3, "job_completed"),
    ]


def test_several_walks_at_once_do_not_disturb_one_another(apply, scripted):
    """Iterators over one table, taken in turns, each go their own way."""
    apply(*[(scripted.names, (name, "k", number), b"") for name in ("a", "b") for number in range(5)])
    with apply.engine.read() as reader:
        up, down = reader.rows(scripted.names, ("a",)), reader.rows(scripted.names, ("b",), None, True)
        met = [(next(up)[0][2], next(down)[0][2]) for _ in range(5)]
        assert met == [(number, 4 - number) for number in range(5)]
        assert next(up, None) is None and next(down, None) is None
