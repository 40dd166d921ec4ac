"""Opening a store: what is made, what is taken, and what is refused and left as it was."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb
import msgspec
import pytest

from eventjobs.store.codec import seal
from eventjobs.store.contract import Corrupt, Head, StoreError
from eventjobs.store.lmdb import engine as engine_module
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.tables import FORMAT_KEY, FORMAT_VERSION, HEAD_KEY
from eventjobs.store.merkle import EMPTY_ROOT

NOBODY = 65534


def files(directory: Path) -> dict[str, bytes]:
    """What the files hold that stand for the store; LMDB's table of readers and our lock say who is at it."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name == "data.mdb"}


def test_an_empty_directory_becomes_an_empty_store(store):
    """A directory that is missing, its parents too, is made; the log is empty and its root that of nothing."""
    store.directory = store.directory / "deep" / "down"
    engine = store.open()
    with engine.read() as reader:
        assert reader.head() == Head(0, EMPTY_ROOT)
        assert reader.record(1) is None and reader.records(0, 10) == []
        assert reader.next_due(0) is None and reader.next_expiry() is None
    assert engine.room_for_new_work()


def test_what_was_committed_is_there_after_opening_again(store):
    """Log, jobs and contents of a closed store come back as they were."""
    store.open()
    store.story()
    with store.engine.read() as reader:
        before = reader.head(), reader.records(0, 100), [reader.job(job.job_id) for job in reader.records(0, 100)]
    store.open()
    with store.engine.read() as reader:
        after = reader.head(), reader.records(0, 100), [reader.job(job.job_id) for job in reader.records(0, 100)]
    assert after == before and after[0].size > 10


def test_opening_an_old_store_changes_nothing_in_it(store):
    """A store that needs nothing is the same bytes after it was opened and closed."""
    store.open()
    store.story()
    store.close()
    before = files(store.directory)
    store.open()
    store.close()
    assert files(store.directory) == before


@pytest.mark.parametrize("flag", ["sync", "metasync", "writemap", "map_async"])
def test_a_store_that_is_not_durable_is_refused(store, monkeypatch, flag):
    """Should the environment ever be opened without full durability, nothing goes on."""
    real = lmdb.open
    weak = {flag: flag not in ("sync", "metasync")} | ({"writemap": True} if flag == "map_async" else {})
    monkeypatch.setattr(engine_module.lmdb, "open", lambda *args, **settings: real(*args, **settings | weak))
    with pytest.raises(StoreError, match="without full durability"):
        store.open()


def test_the_environment_is_durable(store):
    """The flags that make a commit wait for the disk are on, those that endanger it off."""
    flags = store.open()._env.flags()
    assert flags["sync"] and flags["metasync"] and not flags["writemap"] and not flags["map_async"]


def test_too_small_a_map_is_refused(store):
    """A map below the least size is refused before anything is made."""
    with pytest.raises(StoreError, match="map size of 1000 bytes is too small; the least is 1048576"):
        store.open(map_size=1_000)
    assert not store.directory.exists()


def test_a_map_that_finds_no_address_space_is_refused(run_program, store):
    """Under a limit of address space the refusal says what to do, and is no crash."""
    program = """
        import resource, sys
        from pathlib import Path
        from eventjobs.store.contract import StoreError
        from eventjobs.store.lmdb import open_engine
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
        try:
            open_engine(Path(sys.argv[1]), map_size=1 << 40, force_filesystem=True)
        except StoreError as error:
            print(error)
    """
    assert "no address space for a map of 1099511627776 bytes; use a smaller --map-size" in run_program(
        program, store.directory
    )


def foreign_unnamed(env: lmdb.Environment, txn: lmdb.Transaction) -> None:
    txn.put(b"somebody", b"else")


def foreign_named(env: lmdb.Environment, txn: lmdb.Transaction) -> None:
    txn.put(b"k", b"v", db=env.open_db(b"theirs", txn=txn))


def foreign_meta(env: lmdb.Environment, txn: lmdb.Transaction) -> None:
    txn.put(b"k", b"v", db=env.open_db(b"meta", txn=txn))


def foreign_value_meta(env: lmdb.Environment, txn: lmdb.Transaction) -> None:
    txn.put(b"meta", b"a plain value")


@pytest.mark.parametrize("write", [foreign_unnamed, foreign_named, foreign_meta, foreign_value_meta])
def test_the_file_of_another_program_is_refused(store, write):
    """An LMDB file that is not ours is refused, and is the same bytes afterwards."""
    store.directory.mkdir()
    with lmdb.open(str(store.directory), max_dbs=4) as env, env.begin(write=True) as txn:
        write(env, txn)
    before = files(store.directory)
    with pytest.raises(StoreError, match=r"data\.mdb is an LMDB file of another program"):
        store.open()
    assert files(store.directory) == before


@pytest.mark.parametrize("garbage", [b"not a database", b"\0" * 8192, b"\xff" * 65536])
def test_garbage_is_refused(store, garbage):
    """A data.mdb that is no LMDB file is refused, and left as it was."""
    store.directory.mkdir()
    (store.directory / "data.mdb").write_bytes(garbage)
    with pytest.raises(StoreError, match=r"data\.mdb is not a store of eventjobs"):
        store.open()
    assert files(store.directory) == {"data.mdb": garbage}


def test_a_newer_format_is_refused_untouched(store):
    """A store of a newer format says so; not a byte changes, and this version can be put aside for a newer one."""
    store.open()
    store.story()
    with store.raw(write=True) as txn:
        newer = msgspec.msgpack.encode(FORMAT_VERSION + 1)
        txn.put(FORMAT_KEY, seal(FORMAT_KEY, newer), db=store.database("meta", txn))
    before = files(store.directory)
    refusal = f"has format {FORMAT_VERSION + 1}.*up to {FORMAT_VERSION}; use a newer one"
    with pytest.raises(StoreError, match=refusal) as caught:
        store.open()
    assert not isinstance(caught.value, Corrupt)
    assert files(store.directory) == before


def test_a_directory_that_is_a_file_is_refused(store):
    """A path that cannot be a directory is an error of the store, and names it."""
    store.directory.write_text("here I am")
    with pytest.raises(StoreError, match=f"the data directory {store.directory} cannot be made"):
        store.open()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without rights")
def test_a_directory_without_the_right_to_write_is_refused(run_program, tmp_path):
    """A directory of somebody else is an error of the store, and says why."""
    program = """
        import os, sys
        from pathlib import Path
        from eventjobs.store.contract import StoreError
        from eventjobs.store.lmdb import open_engine
        os.chdir(sys.argv[1])
        os.setuid(int(sys.argv[2]))
        for directory in Path("here"), Path("not/there"):
            try:
                open_engine(directory, force_filesystem=True)
            except StoreError as error:
                print(error)
    """
    tmp_path.chmod(0o755)
    (tmp_path / "here").mkdir()
    said = run_program(program, tmp_path, NOBODY).splitlines()
    assert said == [
        "the data directory here cannot be written: Permission denied",
        "the data directory not/there cannot be made: Permission denied",
    ]


def test_a_log_that_is_longer_than_its_head_is_corrupt(store):
    """A head that stands for fewer records than there are is found at the start."""
    store.open()
    store.enqueue()
    with store.raw() as txn:
        head = txn.get(HEAD_KEY, db=store.database("meta", txn))
    store.open()
    store.enqueue()
    with store.raw(write=True) as txn:
        txn.put(HEAD_KEY, head, db=store.database("meta", txn))
    with pytest.raises(Corrupt, match="the log ends at position 2, but its head says 1"):
        store.open()


def test_a_log_that_was_cut_off_is_corrupt(store):
    """A head that stands for more records than there are is found at the start."""
    store.open()
    store.enqueue()
    with store.raw(write=True) as txn:
        assert txn.delete((1).to_bytes(8), db=store.database("log", txn))
    with pytest.raises(Corrupt, match="the log ends at position 0, but its head says 1"):
        store.open()


@pytest.mark.parametrize("row", [HEAD_KEY, FORMAT_KEY])
def test_a_store_without_its_head_or_format_is_refused(store, row):
    """A row of meta that is missing is an error of the store, and no other error."""
    store.open()
    store.enqueue()
    with store.raw(write=True) as txn:
        assert txn.delete(row, db=store.database("meta", txn))
    with pytest.raises(StoreError):
        store.open()


def test_a_store_that_was_refused_can_be_opened_when_the_reason_is_gone(store):
    """A failed opening holds neither the lock nor the environment."""
    store.open()
    store.enqueue()
    with store.raw(write=True) as txn:
        record = txn.pop((1).to_bytes(8), db=store.database("log", txn))
    for _ in range(2):
        with pytest.raises(Corrupt):
            open_engine(store.directory, force_filesystem=True)
    with store.raw(write=True) as txn:
        txn.put((1).to_bytes(8), record, db=store.database("log", txn))
    with store.open().read() as reader:
        assert reader.head().size == 1
