"""A commit that fails: what it means, and whether the store may go on."""

from __future__ import annotations

import lmdb
import pytest

from eventjobs.store.contract import Failed, OutcomeUnknown, StorageFull
from eventjobs.store.lmdb import engine as engine_module
from eventjobs.testing import builders as b


class FailingTransaction:
    """An LMDB transaction whose commit fails, after it was done or instead of it."""

    def __init__(self, txn: lmdb.Transaction, error: Exception, done: bool) -> None:
        self._txn, self._error, self._done = txn, error, done

    def __getattr__(self, name: str) -> object:
        return getattr(self._txn, name)

    def commit(self) -> None:
        if self._done:
            self._txn.commit()
        else:
            self._txn.abort()
        raise self._error


def failing_commit(store, error: Exception, done: bool) -> None:
    """Enqueue a job in a transaction whose commit fails."""
    engine = store.engine
    engine.begin().append(None, b.enqueued(), b.an_id(99), b.at(1), b.PRODUCER_ACTOR, b.PAYLOAD)
    txn, transaction = engine._open
    engine._open = FailingTransaction(txn, error, done), transaction
    engine.commit()


def size(engine) -> int:
    with engine.read() as reader:
        return reader.head().size


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (lmdb.DiskError("No space left on device"), "the disk .* is full .*make room, nothing else is needed"),
        (lmdb.MapFullError("MDB_MAP_FULL"), "the map .* is full .*restart with a larger --map-size"),
    ],
)
def test_no_space_at_the_commit_is_no_end(store, error, advice):
    """When the store reads as before, nothing was written: the engine says what helps, and goes on."""
    engine = store.open()
    store.enqueue()
    with pytest.raises(StorageFull, match=advice) as caught:
        failing_commit(store, error, done=False)
    assert caught.value.__cause__ is error
    assert size(engine) == 1
    assert store.enqueue().spec.position == 2


def test_no_space_after_the_commit_is_unknown(store):
    """When the head moved in spite of the error, nobody may be told that nothing was done."""
    store.open()
    with pytest.raises(OutcomeUnknown, match="may or may not be on disk: No space left"):
        failing_commit(store, lmdb.DiskError("No space left on device"), done=True)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("error", [lmdb.Error("Input/output error"), lmdb.PanicError("MDB_PANIC")])
def test_any_other_error_is_unknown(store, error, done):
    """After EIO or a panic the outcome is open, however the store reads."""
    store.open()
    with pytest.raises(OutcomeUnknown, match="may or may not be on disk") as caught:
        failing_commit(store, error, done=done)
    assert caught.value.__cause__ is error


def test_a_write_that_was_cut_short_is_no_space(store, monkeypatch):
    """An input/output error on a disk without room, with the store as it was, is a full disk and no broken one."""
    engine = store.open()
    monkeypatch.setattr(engine_module, "no_space_left", lambda directory: directory == store.directory)
    with pytest.raises(StorageFull, match="the disk .* is full .*make room"):
        failing_commit(store, lmdb.Error("Input/output error"), done=False)
    assert size(engine) == 0
    with pytest.raises(OutcomeUnknown):
        failing_commit(store, lmdb.Error("Input/output error"), done=True)


def test_a_file_that_may_not_grow_is_a_full_disk(run_program, store):
    """Under a limit of file size, which cuts writes short as a full disk does, the engine refuses and goes on."""
    program = """
        import resource, sys
        from pathlib import Path
        from eventjobs.store.contract import StorageFull
        from eventjobs.store.lmdb import open_engine
        from eventjobs.testing import builders as b
        engine = open_engine(Path(sys.argv[1]), map_size=64 << 20, force_filesystem=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
        done = refused = 0
        for number in range(40):
            size = 50_000 if number < 30 else 10
            try:
                transaction = engine.begin()
                transaction.append(
                    None, b.enqueued(), b.an_id(number), b.START, b.PRODUCER_ACTOR, b.content('"' + "x" * size + '"')
                )
                engine.commit()
                done += 1
            except StorageFull:
                refused += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        transaction = engine.begin()
        content = b.content('"' + "x" * 50_000 + '"')
        transaction.append(None, b.enqueued(), b.an_id(99), b.START, b.PRODUCER_ACTOR, content)
        engine.commit()
        with engine.read() as reader:
            assert len(reader.records(0, 100)) == reader.head().size == done + 1, (done, reader.head())
        print(done > 3, refused > 3)
    """
    assert run_program(program, store.directory).split() == ["True", "True"]


def test_no_space_and_a_store_that_cannot_be_read_is_unknown(store, monkeypatch):
    """When the head cannot be read after the failure, nothing can be said."""
    engine = store.open()
    error = lmdb.DiskError("No space left on device")
    engine.begin().append(None, b.enqueued(), b.an_id(99), b.at(1), b.PRODUCER_ACTOR, b.PAYLOAD)
    txn, transaction = engine._open
    engine._open = FailingTransaction(txn, error, done=False), transaction

    class Panicked:
        def begin(self) -> None:
            raise lmdb.PanicError("MDB_PANIC")

        def close(self) -> None:
            """Closed by the fixture."""

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_env", Panicked())
        with pytest.raises(OutcomeUnknown):
            engine.commit()
        with pytest.raises(Failed, match="failed before .* open it again"), engine.read():
            pass


def test_a_commit_that_wrote_nothing_moves_nothing(store):
    """A transaction without an append leaves head and file as they are."""
    store.open()
    store.enqueue()
    before = store.rows()
    store.open()
    with store.commit() as handler:
        assert handler.lease(b.lease(), ["nobody's"], None, 1).jobs == []
    assert store.rows() == before
