"""Compacting: the file becomes small, what was deleted is not in it any more, and whatever happens nothing is lost."""

from __future__ import annotations

import fcntl

import lmdb
import orjson
import pytest
from click.testing import CliRunner

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.store.contract import AlreadyOpen, Corrupt, StorageFull
from eventjobs.store.lmdb.compact import compact
from eventjobs.store.lmdb.snapshot import NoStore
from eventjobs.testing import builders as b

SECRET = b"a secret that is to be gone"


@pytest.fixture
def filled(store):
    """A closed store with a past, and a content that was taken out of it."""
    store.open()
    store.story()
    with store.commit() as handler:
        handler.enqueue([b.enqueue(b.an_id(100), payload=b.content('"' + SECRET.decode() + '"'))])
        handler.enqueue([b.enqueue(b.an_id(100 + number)) for number in range(1, 2_000)])
    with store.raw(write=True) as txn:
        contents = store.database("contents", txn)
        with txn.cursor(db=contents) as cursor:
            found = next(key for key, value in cursor if SECRET in value)
        txn.delete(found, db=contents)
        for position in range(100, 1_500):
            txn.delete(position.to_bytes(8), db=store.database("projection/history", txn))
    return store


def nothing(done: int, total: int) -> None:
    """Nobody looks."""


def test_the_file_is_small_and_says_the_same(filled):
    """Every row is what it was; what was deleted is gone from the bytes; the store opens and is written on."""
    file = filled.directory / "data.mdb"
    before, size = filled.rows(), file.stat().st_size
    assert SECRET in file.read_bytes()
    done = compact(filled.directory, nothing)
    assert (done.before, done.after) == (size, file.stat().st_size)
    assert done.after < done.before
    assert SECRET not in file.read_bytes()
    assert filled.rows() == before
    filled.open()
    filled.jobs = 10_000
    filled.story()


def test_a_compacted_store_can_be_compacted_again(filled):
    """It has nothing to give back."""
    first = compact(filled.directory, nothing)
    assert compact(filled.directory, nothing).after == first.after


def test_a_store_in_use_is_refused(filled):
    """And left alone."""
    filled.open()
    with pytest.raises(AlreadyOpen):
        compact(filled.directory, nothing)
    filled.story()


def test_an_interruption_leaves_the_original(filled):
    """At any point before the end; nothing else is left behind."""
    content = (filled.directory / "data.mdb").read_bytes()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(filled.directory, stop)
    assert (filled.directory / "data.mdb").read_bytes() == content
    assert not (filled.directory / "data.mdb.partial").exists()
    assert compact(filled.directory, nothing)


def test_what_a_killed_run_left_is_written_over(filled):
    """It is never taken for a store."""
    (filled.directory / "data.mdb.partial").write_bytes(b"half" * 100_000)
    compact(filled.directory, nothing)
    assert not (filled.directory / "data.mdb.partial").exists()


def test_a_copy_that_differs_is_not_put_in_place(filled, monkeypatch):
    """However it came to."""
    file = filled.directory / "data.mdb"
    content = file.read_bytes()

    def another(old, partial, progress) -> None:
        partial.write_bytes(content)
        env = lmdb.open(str(partial), subdir=False, max_dbs=128, map_size=64 << 20, lock=False)
        with env, env.begin(write=True) as txn:
            txn.delete((1).to_bytes(8), db=env.open_db(b"log", txn=txn))

    monkeypatch.setattr("eventjobs.store.lmdb.compact._write", another)
    with pytest.raises(Corrupt, match="log is not the same"):
        compact(filled.directory, nothing)
    assert file.read_bytes() == content


def test_a_full_disk(filled, monkeypatch):
    """Is told, and leaves the original."""
    content = (filled.directory / "data.mdb").read_bytes()

    def full(path: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eventjobs.store.lmdb.anew.flush", full)
    monkeypatch.setattr("eventjobs.store.lmdb.anew.no_space_left", lambda directory: True)
    with pytest.raises(StorageFull, match="make room"):
        compact(filled.directory, nothing)
    assert (filled.directory / "data.mdb").read_bytes() == content
    assert not (filled.directory / "data.mdb.partial").exists()


def test_no_store(tmp_path):
    """Nothing is made."""
    with pytest.raises(NoStore):
        compact(tmp_path, nothing)
    assert not list(tmp_path.iterdir())


def test_the_command(filled):
    """It says both sizes; its exit code tells a store in use from a damaged one."""
    arguments = ["compact", "--data", str(filled.directory)]
    said = CliRunner().invoke(cli, [*arguments, "--json"])
    assert said.exit_code == exits.DONE
    sizes = orjson.loads(said.stdout)
    assert sizes["before"] > sizes["after"] > 0
    assert "bytes before" in CliRunner().invoke(cli, arguments).stdout
    with (filled.directory / "coordinator.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert CliRunner().invoke(cli, arguments).exit_code == exits.USAGE
    (filled.directory / "data.mdb").write_bytes(b"")
    assert CliRunner().invoke(cli, arguments).exit_code == exits.USAGE
