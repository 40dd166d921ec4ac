"""A source gives the log that a store holds, as of one head, and holds nothing open."""

from __future__ import annotations

import shutil

import lmdb
import pytest

from eventjobs.client import BlockingClient
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Corrupt, Head
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.store.merkle import Frontier, leaf_hash
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools import source as module
from eventjobs.tools.source import open_source


@pytest.fixture(params=[7, module.STRETCH_RECORDS])
def stretch(request, monkeypatch):
    """Stretches that end in the middle, and one that holds all."""
    monkeypatch.setattr(module, "STRETCH_RECORDS", request.param)


def test_it_gives_every_record_and_content_as_stored(data, stretch):
    """Texts lead to the head's root, records are those of the engine, contents lie at their records."""
    engine = open_engine(data, READ_MODELS, force_filesystem=True)
    with engine.read() as reader:
        records = reader.records(0, 10_000)
    engine.close()
    with open_source(data) as source:
        tree = Frontier()
        for position, text in source.texts():
            assert position == tree.size + 1
            tree.append(leaf_hash(text))
        head = source.head()
        assert (head.size, head.root, head.time) == (tree.size, tree.root(), records[-1].time)
        assert list(source.records()) == records
        assert list(source.records(after=head.size - 3)) == records[-3:]
        entries = list(source.entries())
    digests = {r.position: getattr(r.event, name) for r in records for name in ("payload", "result", "error")
               if getattr(r.event, name, None) is not None}  # fmt: skip
    assert {entry.position: entry.content.digest() for entry in entries if entry.content is not None} == digests


def test_single_records_and_contents(data):
    """A record by its position, None outside of the log; a content by its reference, Corrupt for one that is not."""
    with open_source(data) as source:
        record = source.record(1)
        assert record.position == 1
        assert source.record(0) is source.record(source.head().size + 1) is None
        found = next(source.entries())
        assert source.content(module.ContentRef(1, record.event.payload.size)) == found.content.text
        with pytest.raises(Corrupt, match=r"position 99999 is missing"):
            source.content(module.ContentRef(99_999, 1))


def test_it_ends_at_its_head_until_it_follows(data, stretch):
    """What was appended since is not seen before `follow`."""
    with open_source(data) as source:
        before = source.head()
        engine = open_engine(data, READ_MODELS, force_filesystem=True)
        Driver(engine).execute(b.enqueue(b.an_id(5_000), now=b.at(90_000)))
        with engine.read() as reader:
            after = reader.head()
        engine.close()
        assert sum(1 for _ in source.texts()) == before.size == after.size - 1
        assert source.record(after.size) is None
        assert Head(source.follow().size, source.head().root) == after
        assert sum(1 for _ in source.texts()) == after.size


def test_a_copy_of_the_file_is_a_source(data, tmp_path):
    """The file under another name, without its directory."""
    shutil.copy(data / "data.mdb", tmp_path / "copy")
    with open_source(data) as one, open_source(tmp_path / "copy") as other:
        assert one.head() == other.head()
        assert list(one.texts()) == list(other.texts())


def test_beside_a_running_coordinator(coordinator):
    """The log is read while the coordinator has it."""
    with open_source(coordinator.data) as source:
        assert source.head().size == 0
        with BlockingClient(coordinator.url) as client:
            client.enqueue("email")
        assert source.follow().size == 1
        assert [record.event.kind for record in source.records()] == ["email"]


def test_damage_is_not_passed_over(data, stretch):
    """A record that is missing, one that was moved, and one whose checksum does not match."""
    with lmdb.open(str(data), max_dbs=128) as env, env.begin(write=True) as txn:
        log = env.open_db(b"log", txn=txn)
        txn.delete((300).to_bytes(8, "big"), db=log)
    with open_source(data) as source, pytest.raises(Corrupt, match="position 300 is missing"):
        list(source.texts())
    with lmdb.open(str(data), max_dbs=128) as env, env.begin(write=True) as txn:
        log = env.open_db(b"log", txn=txn)
        txn.put((300).to_bytes(8, "big"), txn.get((299).to_bytes(8, "big"), db=log), db=log)
    with open_source(data) as source, pytest.raises(Corrupt, match="checksum"):
        list(source.texts())


def test_what_is_no_store_is_told(tmp_path):
    """A clear NoStore for nothing, an empty file and a foreign one."""
    for path, content in (("none", None), ("empty", b""), ("foreign", b"x" * 9_000)):
        if content is not None:
            (tmp_path / path).write_bytes(content)
        with pytest.raises(NoStore, match=path), open_source(tmp_path / path):
            pass
