"""One store and several processes: the lock, the fork, and readers that were killed."""

from __future__ import annotations

import threading

import lmdb
import pytest

from eventjobs.store.contract import AlreadyOpen
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.guards import LOCK_FILE
from eventjobs.testing import builders as b

HOLD = """
    import os, sys
    from pathlib import Path
    from eventjobs.store.lmdb import open_engine
    engine = open_engine(Path(sys.argv[1]), map_size=64 << 20, force_filesystem=True)
    print(os.getpid(), flush=True)
    sys.stdin.read()
    engine.close()
"""


def test_a_second_coordinator_is_refused_and_told_who_the_first_is(store, started_program):
    """While another process has the store open, opening it names that process and what to do."""
    with started_program(HOLD, store.directory) as holder:
        pid = int(holder.stdout.readline())
        with pytest.raises(AlreadyOpen, match=rf"in use by a coordinator \(process {pid}\); stop that one first"):
            store.open()
        holder.communicate("")
    assert store.open().room_for_new_work()


def test_a_killed_coordinator_leaves_no_lock(store, started_program):
    """A process that was killed holds nothing: the store opens at once."""
    with started_program(HOLD, store.directory) as holder:
        assert holder.stdout.readline()
        holder.kill()
        holder.wait()
        assert store.open().room_for_new_work()


def test_the_same_process_is_refused_as_well(store):
    """One owner in one process, too: a second engine on the directory is refused, the first goes on."""
    store.open()
    with pytest.raises(AlreadyOpen):
        open_engine(store.directory, force_filesystem=True)
    assert store.enqueue().version == 1


def test_a_refused_coordinator_takes_nothing_from_the_first(store, started_program):
    """Neither the lock nor the name in it changes hands by a refusal."""
    with started_program(HOLD, store.directory) as holder:
        pid = int(holder.stdout.readline())
        for _ in range(2):
            with pytest.raises(AlreadyOpen, match=f"process {pid}"):
                store.open()
        assert (store.directory / LOCK_FILE).read_text() == f"{pid}\n"


def test_a_shorter_process_id_is_not_followed_by_the_rest_of_a_longer_one(store):
    """The lock file names its holder alone, whatever stood in it before."""
    store.directory.mkdir()
    (store.directory / LOCK_FILE).write_text("12345678901234567890\n")
    store.open()
    with pytest.raises(AlreadyOpen, match=r"\(process \d{1,10}\)"):
        open_engine(store.directory, force_filesystem=True)


def test_a_forked_child_is_refused_the_store(store, run_program):
    """After a fork the child can neither read, write nor keep house; the parent goes on as before."""
    program = """
        import os, sys
        from pathlib import Path
        from eventjobs.store.contract import StoreError
        from eventjobs.store.lmdb import open_engine
        engine = open_engine(Path(sys.argv[1]), map_size=64 << 20, force_filesystem=True)
        child = os.fork()
        if child == 0:
            refused = 0
            for attempt in (engine.begin, engine.maintain, lambda: engine.read().__enter__()):
                try:
                    attempt()
                except StoreError as error:
                    refused += "cannot be used in the child" in str(error)
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        engine.begin()
        engine.commit()
        with engine.read() as reader:
            print(reader.head().size)
    """
    assert run_program(program, store.directory).split() == ["3", "0"]


def test_a_second_thread_is_refused_the_writing(store):
    """The first thread to write is the only one; another is told so, and nothing is left open."""
    store.open()
    store.enqueue()
    met: list[BaseException] = []

    def write() -> None:
        try:
            store.engine.begin()
        except RuntimeError as error:
            met.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert "written by one thread" in str(met[0])
    assert store.enqueue().version == 1


def test_transactions_do_not_nest(store):
    """A second begin is refused while a transaction is open, and a commit without one is an error."""
    store.open()
    store.engine.begin()
    with pytest.raises(RuntimeError, match="open already"):
        store.engine.begin()
    store.engine.abort()
    for end in (store.engine.commit, store.engine.abort):
        with pytest.raises(RuntimeError, match="no write transaction is open"):
            end()


def test_closing_drops_what_was_not_committed(store):
    """An open transaction is gone with its engine."""
    store.open()
    store.engine.begin().append(None, b.enqueued(), b.an_id(1), b.START, b.PRODUCER_ACTOR, b.PAYLOAD)
    with store.open().read() as reader:
        assert reader.head().size == 0


READ = """
    import sys
    import lmdb
    env = lmdb.open(sys.argv[1], readonly=True, max_dbs=64)
    txn = env.begin()
    txn.stat(env.open_db(None, txn=txn))
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_a_killed_reader_does_not_keep_its_place(store, started_program):
    """Housekeeping frees the slot of a reader that was killed: it would keep every old page for ever."""
    engine = store.open()
    with started_program(READ, store.directory) as reader:
        assert reader.stdout.readline() == "reading\n"
        assert str(reader.pid) in engine._env.readers()
        engine.maintain()
        assert str(reader.pid) in engine._env.readers(), "a reader that lives keeps its place"
        reader.kill()
        reader.wait()
        engine.maintain()
        assert str(reader.pid) not in engine._env.readers()


def test_a_readers_view_does_not_move(store):
    """What a reader sees stays as it is, whatever is committed meanwhile."""
    engine = store.open()
    store.enqueue()
    with engine.read() as reader:
        store.enqueue()
        assert (reader.head().size, reader.record(2)) == (1, None)
    with engine.read() as reader:
        assert reader.head().size == 2


def test_a_reader_ends_with_its_block(store):
    """A view that is over cannot be read any more: its pages may hold anything."""
    engine = store.open()
    with engine.read() as reader:
        assert reader.head().size == 0
    with pytest.raises(lmdb.Error):
        reader.head()
