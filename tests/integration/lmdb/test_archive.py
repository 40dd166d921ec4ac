"""Records that leave the live store for the archive: every answer stays what it was, and nothing is lost on the way."""

from __future__ import annotations

import shutil

import lmdb
import msgspec
import pytest

from eventjobs.projections import history
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.contract import Corrupt, StorageFull, StoreError
from eventjobs.store.lmdb.sealing import EMPTY_RECORDS
from eventjobs.store.lmdb.snapshot import open_snapshot
from eventjobs.store.lmdb.tables import TREE_KEY
from eventjobs.testing import builders as b

ALWAYS = b.at(10**9)
"""All that was recorded is older."""


def no_pause() -> None:
    """Work goes on at once."""


@pytest.fixture
def filled(store):
    """A store with segments of 256 records, and 1,000 and more of them."""
    (store.directory / "archive").mkdir(parents=True)
    save_manifest(store.directory / "archive", Manifest(8))
    store.open()
    for _ in range(5):
        store.story()
    for turn in range(34):
        with store.commit() as handler:
            handler.enqueue([b.enqueue(b.an_id(10_000 + 30 * turn + place), now=b.at(turn)) for place in range(30)])
    return store


def seal(store, before: int = ALWAYS) -> int:
    """Seal and take out all that can be; how many records are in the archive then."""
    while store.engine.seal(before, no_pause):
        pass
    while store.engine.empty():
        pass
    return store.engine.archive.end


def answers(store) -> dict[str, object]:
    """What can be asked about the log."""
    with store.engine.read() as reader:
        size = reader.head().size
        records = reader.records(0, size)
        return {
            "head": reader.head(),
            "records": records,
            "one by one": [reader.record(position) for position in range(size + 2)],
            "texts": [reader.record_text(position) for position in range(size + 2)],
            "stretches": [
                reader.records(after, 300) for after in (0, 100, 255, 256, 511, 512, 700, 768, size, size + 9)
            ],
            "roots": [reader.root(part) for part in (0, 1, 255, 256, 300, 512, 800, size)],
            "inclusion": [reader.inclusion_proof(position, size) for position in (1, 200, 256, 257, 511, 900, size)],
            "consistency": [reader.consistency_proof(part, size) for part in (1, 255, 256, 300, 513, 900, size)],
            "histories": {record.job_id: history.positions(reader, record.job_id) for record in records},
        }


def test_every_answer_stays_what_it_was(filled):
    """While records are sealed, sealed and taken out in part, and taken out; and after opening again."""
    before = answers(filled)
    assert filled.engine.seal(ALWAYS, no_pause)
    assert answers(filled) == before
    while filled.engine.seal(ALWAYS, no_pause):
        assert answers(filled) == before
    assert filled.engine.empty()
    assert answers(filled) == before
    seal(filled)
    assert filled.engine.archive.end == before["head"].size // 256 * 256 > 900
    assert answers(filled) == before
    filled.open()
    assert answers(filled) == before
    rows = filled.rows()["log"]
    assert int.from_bytes(min(rows)) == filled_archive(filled) + 1
    assert len(rows) == before["head"].size - filled_archive(filled)


def filled_archive(store) -> int:
    names = sorted(path.name for path in (store.directory / "archive").glob("*.log"))
    assert names == [f"{first:012}-{first + 255:012}.log" for first in range(1, 256 * len(names), 256)]
    return 256 * len(names)


def test_writing_goes_on(filled):
    """New records follow on; what was granted to a request whose records are archived is known."""
    first = filled.engine.begin().grants("worker-1", "request-0", b.at(1))
    filled.engine.abort()
    seal(filled)
    assert filled.engine.begin().grants("worker-1", "request-0", b.at(1)) == first
    filled.engine.abort()
    filled.story()
    size = len(answers(filled)["records"])
    assert seal(filled) == (size - 1) // 256 * 256


def test_rows_and_nodes_are_made_anew_from_both(filled):
    """Read models and nodes of the tree, from the first record on."""
    seal(filled)
    before = filled.rows()
    filled.open(read_models=())
    with filled.commit() as handler:
        handler.enqueue([b.enqueue(b.an_id(9_000))])
    filled.open()
    expected = answers(filled)
    with filled.raw(write=True) as txn:
        meta = filled.database("meta", txn)
        for key in [TREE_KEY, *(key for key, _ in txn.cursor(db=meta) if key.startswith(b"projection:"))]:
            txn.delete(key, db=meta)
    filled.open()
    assert answers(filled) == expected
    assert filled.rows()["tree"] == before["tree"]


def test_only_old_segments_are_sealed(filled):
    """A segment waits until its newest record is older, and never holds the newest record of the log."""
    with filled.engine.read() as reader:
        border = reader.record(512).time
    assert seal(filled, before=border) == 256
    assert seal(filled, before=border + 1) >= 512


def test_the_newest_record_stays(store):
    """Also when it completes a segment."""
    (store.directory / "archive").mkdir(parents=True)
    save_manifest(store.directory / "archive", Manifest(8))
    store.open()
    with store.commit() as handler:
        handler.enqueue([b.enqueue(b.an_id(1_000 + number)) for number in range(256)])
    assert seal(store) == 0
    store.enqueue()
    assert seal(store) == 256


def test_taking_out_is_done_in_small_steps(filled, monkeypatch):
    """Each is a commit of its own, and a store that is opened between two of them goes on."""
    monkeypatch.setattr("eventjobs.store.lmdb.sealing.EMPTY_RECORDS", 100)
    assert EMPTY_RECORDS <= 1_000
    before = answers(filled)
    while filled.engine.seal(ALWAYS, no_pause):
        pass
    steps = 0
    while filled.engine.empty():
        steps += 1
        filled.open()
        assert not filled.engine.empty()  # only what was read back is taken out
        while filled.engine.seal(ALWAYS, no_pause):
            pass
    assert steps == -(-filled.engine.archive.end // 100)
    assert answers(filled) == before


def test_nothing_is_taken_out_of_what_was_damaged_since(filled):
    """A file that was sealed by a process that ended is read back before the records go."""
    filled.engine.seal(ALWAYS, no_pause)
    filled.close()
    path = next((filled.directory / "archive").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    filled.open()
    before = answers(filled)
    with pytest.raises(Corrupt, match=path.name):
        filled.engine.seal(ALWAYS, no_pause)
    assert not filled.engine.empty()
    assert answers(filled) == before


class Stop(Exception):
    """The work is to end."""


def test_stopped_work_leaves_nothing_behind(filled):
    """At any pause."""
    before = answers(filled)
    listed = sorted((filled.directory / "archive").iterdir())
    for pauses in range(2):
        left = [pauses]

        def pause(left=left) -> None:
            if not left[0]:
                raise Stop
            left[0] -= 1

        with pytest.raises(Stop):
            filled.engine.seal(ALWAYS, pause)
        assert sorted((filled.directory / "archive").iterdir()) == listed
    assert answers(filled) == before


def test_a_full_disk_leaves_nothing_behind(filled, monkeypatch):
    """It is told as that, and the work can be done again."""
    listed = sorted((filled.directory / "archive").iterdir())

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("eventjobs.store.archive.segment.os.fsync", full)
        with pytest.raises(StorageFull, match="make room"):
            filled.engine.seal(ALWAYS, no_pause)
    assert sorted((filled.directory / "archive").iterdir()) == listed
    assert seal(filled) > 900


def test_what_an_interrupted_run_left_is_removed(filled):
    """At the next start."""
    partial = filled.directory / "archive" / "000000000001-000000000256.log.partial"
    partial.write_bytes(b"half")
    filled.open()
    assert not partial.exists()


@pytest.mark.parametrize("harm", ["all", "manifest", "file", "cut", "another"])
def test_a_store_without_its_archive_is_refused(filled, tmp_path, harm):
    """At the start, with the name of what is missing or wrong; and left as it was."""
    seal(filled)
    filled.close()
    archive = filled.directory / "archive"
    first, second, *_ = sorted(archive.glob("*.log"))
    if harm == "all":
        archive.rename(tmp_path / "elsewhere")
    elif harm == "manifest":
        (archive / "manifest.json").unlink()
    elif harm == "file":
        second.unlink()
    elif harm == "cut":
        second.write_bytes(second.read_bytes()[:-1])
    else:
        shutil.copy(first, second)
    named = "manifest.json is missing" if harm in ("all", "manifest") else second.name
    before = filled.rows()
    with pytest.raises(Corrupt, match=named):
        filled.open()
    assert filled.rows() == before
    if harm == "all":
        with open_snapshot(filled.directory) as snapshot, pytest.raises(Corrupt, match="put the archive back"):
            next(snapshot.log_rows(1))


def test_a_damaged_block_is_named(filled):
    """Its records cannot be read, nor proofs that hash them; all others can."""
    seal(filled)
    filled.close()
    path = sorted((filled.directory / "archive").glob("*.log"))[1]
    content = bytearray(path.read_bytes())
    content[500] ^= 4
    path.write_bytes(content)
    filled.open()
    with filled.engine.read() as reader:
        where = f"{path.name}: the block with positions 257 to 512: .* does not match its checksum"
        for ask in (
            lambda: reader.record(300),
            lambda: reader.records(200, 100),
            lambda: reader.inclusion_proof(300, 900),
        ):
            with pytest.raises(Corrupt, match=where):
                ask()
        assert reader.record(256).position == 256
        assert reader.records(512, 300)[0].position == 513
        assert reader.inclusion_proof(100, 900)


def test_the_archive_of_another_log_is_refused(filled, tmp_path):
    """Although each of its files is sound."""
    seal(filled)
    own = filled.directory / "archive"
    filled.close()
    own.rename(tmp_path / "own")
    other = type(filled)(tmp_path / "other")
    (other.directory / "archive").mkdir(parents=True)
    save_manifest(other.directory / "archive", Manifest(8))
    other.open()
    while other.jobs < 1_100:
        with other.commit() as handler:
            handler.enqueue([b.enqueue(b.an_id(other.jobs + place)) for place in range(100)])
        other.jobs += 100
    seal(other)
    other.close()
    (other.directory / "archive").rename(own)
    with pytest.raises(Corrupt, match="has other records than the store's log"):
        filled.open()


def test_programs_without_an_archive_refuse_such_a_store(filled):
    """The store's format says so once a record has left it, and not before."""

    def format_of() -> int:
        return msgspec.msgpack.decode(filled.rows()["meta"][b"format"][4:])

    assert format_of() == 1
    filled.open()
    seal(filled)
    assert format_of() == 2


def test_a_full_map_is_no_end(filled, monkeypatch):
    """Taking out needs a little room itself; without it, it is told and can be done again."""
    filled.engine.seal(ALWAYS, no_pause)

    def full(*_: object) -> None:
        raise lmdb.MapFullError("mdb_del")

    with monkeypatch.context() as patch:
        patch.setattr("eventjobs.store.lmdb.engine.empty_next", full)
        with pytest.raises(StoreError):
            filled.engine.empty()
    assert seal(filled) > 900
