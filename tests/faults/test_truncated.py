"""A store whose file was cut off: opening refuses it in words and leaves it as it is, at whatever length."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import textwrap

import lmdb
import pytest

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.ledger import check_integrity

JOBS = 40
PAGE = 4096
LENGTHS = {"quick": 60, "ci": 300, "deep": 4_000}
"""How many lengths are tried besides each whole number of pages."""

PROGRAM = """
    # Opens a file at each of some lengths, and reads everything where that is allowed.
    import json, sys
    from pathlib import Path

    from eventjobs.projections import READ_MODELS
    from eventjobs.store.contract import Corrupt, StoreError
    from eventjobs.store.lmdb import open_engine
    from eventjobs.testing.ledger import check_integrity

    directory, whole = Path(sys.argv[1]), Path(sys.argv[2]).read_bytes()
    file = directory / "data.mdb"
    for length in json.loads(sys.argv[3]):
        file.write_bytes(whole[:length])
        print(length, end=" ", flush=True)
        try:
            engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
        except StoreError as error:
            assert file.read_bytes() == whole[:length], "it was changed"
            print(type(error).__name__, error, flush=True)
            continue
        with engine.read() as reader:
            check_integrity(reader)
            print("opened", reader.head().size, flush=True)
        engine.close()
"""


def opened(directory):
    return open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)


def fill(engine) -> None:
    """Jobs with contents of all sizes, each in a commit of its own; a third of them done."""
    for number in range(JOBS):
        handler = Handler(engine.begin(), Effects())
        payload = b.content('"' + "x" * (10, 1_000, 20_000)[number % 3] + '"')
        handler.enqueue([b.enqueue(b.an_id(number + 1), payload=payload)])
        if number % 3 == 0:
            (job,) = handler.lease(b.lease(), None, None, 1).jobs
            handler.execute([b.complete(job.id)])
        engine.commit()


@pytest.fixture
def directory(tmp_path):
    """A closed store."""
    engine = opened(tmp_path / "data")
    fill(engine)
    engine.close()
    return tmp_path / "data"


def size_of(directory) -> int:
    engine = opened(directory)
    try:
        with engine.read() as reader:
            check_integrity(reader)
            return reader.head().size
    finally:
        engine.close()


def test_a_file_that_was_cut_off_is_refused(directory, tmp_path, profile):
    """At every length it is refused with a reason and left as it was; no process dies of it and nothing is lost in
    silence."""
    size = size_of(directory)
    whole = shutil.copy(directory / "data.mdb", tmp_path / "whole")
    end = whole.stat().st_size
    lengths = {*range(0, end + PAGE, PAGE), *random.Random(1).sample(range(end), LENGTHS[profile])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), directory, whole, json.dumps(sorted(lengths))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for line in done.stdout.splitlines():
        length, outcome, text = line.split(" ", 2)
        if int(length) >= end or outcome == "opened":
            assert (outcome, text) == ("opened", str(size)), line
        elif int(length) == 0:
            assert outcome == "Corrupt" and "is empty" in text
        elif outcome == "Corrupt":
            assert f"was cut off at {length} bytes" in text
        else:  # not even LMDB's two heads are left
            assert outcome == "StoreError" and "is not a store of eventjobs" in text and int(length) < 2 * PAGE
    assert len(done.stdout.splitlines()) == len(lengths)


def test_a_file_without_its_free_end_is_opened(directory):
    """A page that was taken and freed again need never have been written: where all that is missing is free, the
    store is opened, has everything, and is written on."""
    size = size_of(directory)
    file = directory / "data.mdb"
    with lmdb.open(str(directory), max_dbs=64, map_size=64 << 20) as env:
        meta = env.open_db(b"meta", create=False)
        for value in (bytes(50 * PAGE), None, None):
            with env.begin(write=True) as txn:
                txn.put(b"large", value, db=meta) if value else txn.delete(b"large", db=meta)
                txn.put(b"small", b"", db=meta)
        with env.begin(write=True) as txn:
            txn.delete(b"small", db=meta)
        end = (env.info()["last_pgno"] + 1) * PAGE
    while not lmdb.verify.verify(str(file), subdir=False):
        whole = file.read_bytes()
        file.write_bytes(whole[:-PAGE])
    file.write_bytes(whole)
    assert file.stat().st_size <= end - 40 * PAGE
    assert size_of(directory) == size
    engine = opened(directory)
    handler = Handler(engine.begin(), Effects())
    handler.enqueue([b.enqueue(b.an_id(1_000 + number), payload=b.content()) for number in range(500)])
    engine.commit()
    engine.close()
    assert size_of(directory) == size + 500


def test_a_first_start_that_failed_leaves_nothing(tmp_path, monkeypatch):
    """A file that could not be made as a whole is not left for the next start to stumble over."""
    real = lmdb.open

    def fail(path, **settings):
        with real(path, **settings):
            raise lmdb.DiskError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lmdb, "open", fail)
        with pytest.raises(StoreError, match="is full"):
            opened(tmp_path / "data")
    assert not (tmp_path / "data" / "data.mdb").exists()
    (tmp_path / "data" / "data.mdb").touch()
    with pytest.raises(Corrupt, match="data.mdb is empty.*if there was no store yet, remove it"):
        opened(tmp_path / "data")
