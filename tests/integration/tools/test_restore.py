"""Backups and restores of a store with a past: what comes out, and what is refused with everything left as it was."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from eventjobs.domain.job import Job, State
from eventjobs.domain.points import Point
from eventjobs.projections import READ_MODELS
from eventjobs.store import codec
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb import snapshot as snapshots
from eventjobs.store.lmdb import tables as lmdb_tables
from eventjobs.store.lmdb.anew import write_anew
from eventjobs.store.lmdb.snapshot import open_snapshot
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import JOBS, retain
from eventjobs.tools.backup import restore as restoring
from eventjobs.tools.backup.restore import restore
from eventjobs.tools.backup.verified import Damaged, verified
from eventjobs.tools.newfile import NotWritten, new_file
from eventjobs.tools.newstore import WORK
from eventjobs.tools.points import position_in
from eventjobs.tools.source import open_source

CUT = 321
MAP_SIZE = 64 << 20


def quiet(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def make(file: Path, directory: Path, until: Point | None = None, quick: bool = False):
    """A restore that must leave the backup as it was."""
    before = file.read_bytes()
    try:
        return restore(file, directory, until, quick, b.OPERATOR_ACTOR, quiet).whole
    finally:
        assert file.read_bytes() == before


@pytest.fixture(scope="module")
def template_backup(template, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("backup") / "backup.mdb"
    with open_snapshot(template) as snapshot:
        write_anew(snapshot, file, lambda done, total: None)
    return file


@pytest.fixture
def backup(template_backup, tmp_path) -> Path:
    """A backup for the test alone."""
    return Path(shutil.copy(template_backup, tmp_path / "backup.mdb"))


@pytest.fixture
def records(template) -> list:
    with open_source(template) as source:
        return list(source.entries())


def test_a_backup_is_sound_and_smaller_than_the_store(template, backup):
    """It has all, without free pages."""
    whole = verified(backup, False, quiet)
    with open_source(template) as source:
        assert whole.head == source.head()
    assert whole.bytes < (template / "data.mdb").stat().st_size


def test_a_restored_store_is_the_one_that_was_backed_up(backup, template, tmp_path):
    """The same log under the same root, and a coordinator's engine finds nothing to make anew."""
    whole = make(backup, tmp_path / "new")
    with open_source(template) as source, open_source(tmp_path / "new") as restored:
        assert whole.head == restored.head() == source.head()
        assert list(restored.entries()) == list(source.entries())
    assert {entry.name for entry in (tmp_path / "new").iterdir()} == {"data.mdb", "coordinator.lock"}


def test_up_to_a_position_the_log_is_the_same_and_beyond_it_there_is_nothing(backup, records, tmp_path):
    """Texts, contents and root are those of the first records; contents of later ones are not in the file at all."""
    whole = make(backup, tmp_path / "new", Point(position=CUT))
    with open_source(tmp_path / "new") as restored, open_snapshot(backup) as original:
        assert list(restored.entries()) == records[:CUT]
        assert (whole.head.size, whole.head.root) == (CUT, original.reader().root(CUT))
    later = next(entry.content for entry in records[CUT:] if entry.content is not None)
    assert later.salt + later.text in backup.read_bytes()
    assert later.salt + later.text not in (tmp_path / "new" / "data.mdb").read_bytes()


def test_work_goes_on_from_the_point(backup, tmp_path):
    """The engine takes the next job at the next position."""
    make(backup, tmp_path / "new", Point(position=CUT))
    engine = open_engine(tmp_path / "new", READ_MODELS, MAP_SIZE, force_filesystem=True)
    try:
        assert Driver(engine).execute(b.enqueue(b.an_id(9_999), now=b.at(100_000)))[0].spec.position == CUT + 1
    finally:
        engine.close()


def test_a_time_stands_for_the_last_record_that_is_not_after_it(backup, records, tmp_path):
    """Records of the very time are in, the next one is not; before the first there is nothing to restore."""
    times = [entry.record().time for entry in records]
    with open_source(backup) as source:
        for time in (times[0], times[200], times[200] + 1, times[-1] + 5):
            assert position_in(source, Point(time=time)) == sum(each <= time for each in times)
    whole = make(backup, tmp_path / "new", Point(time=times[200]), quick=True)
    assert whole.head.size == sum(each <= times[200] for each in times)
    with pytest.raises(StoreError, match="must not be earlier than .*: the log begins then"):
        make(backup, tmp_path / "none", Point(time=times[0] - 1))
    with pytest.raises(StoreError, match="must be a position from 1 to"):
        make(backup, tmp_path / "none", Point(position=100_000))
    assert not (tmp_path / "none").exists()


def test_nothing_is_written_over(backup, data, tmp_path):
    """A directory with anything in it is refused, and so is a target that is there."""
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    with pytest.raises(StoreError, match="is not empty"):
        make(backup, data)
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before
    with pytest.raises(StoreError, match="is there already"), new_file(backup):
        pass


def test_an_empty_directory_may_be_there(backup, tmp_path):
    """As a volume is that was just made."""
    (tmp_path / "new").mkdir()
    assert make(backup, tmp_path / "new", quick=True).file == tmp_path / "new" / "data.mdb"


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[data.rindex(b'{"position":300,') + 15] ^= 1
    file.write_bytes(data)


def foreign(file: Path) -> None:
    file.write_bytes(b"no store at all" * 1_000)


def empty(file: Path) -> None:
    file.write_bytes(b"")


SPOILT = {
    truncated: (Damaged, "is damaged"),
    flipped: (Damaged, "position 300"),
    foreign: (StoreError, "is not a store of eventjobs"),
    empty: (StoreError, "is empty"),
}


@pytest.mark.parametrize("until", [None, Point(position=CUT)], ids=["whole", "until"])
@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_a_bad_backup_is_refused(backup, tmp_path, spoil, until):
    """It is said what is wrong, and no directory is left."""
    spoil(backup)
    error, says = SPOILT[spoil]
    with pytest.raises(error, match=says):
        make(backup, tmp_path / "new", until)
    assert not (tmp_path / "new").exists()


def test_a_missing_backup_is_refused(tmp_path):
    """With its name."""
    with pytest.raises(StoreError, match="missing.mdb does not exist"):
        restore(tmp_path / "missing.mdb", tmp_path / "new", None, False, b.OPERATOR_ACTOR, quiet)
    assert not (tmp_path / "new").exists()


def test_a_newer_backup_is_refused(tmp_path, monkeypatch):
    """What a newer eventjobs wrote is left to it."""
    newer = lmdb_tables.FORMAT_VERSION + 1
    engine = open_engine(tmp_path / "data", READ_MODELS, MAP_SIZE, force_filesystem=True)
    with engine._env.begin(write=True) as txn:
        key = lmdb_tables.FORMAT_KEY
        txn.put(key, codec.seal(key, msgspec.msgpack.encode(newer)), db=engine._tables.meta)
    engine.close()
    with pytest.raises(StoreError, match=f"has format {newer}"):
        make(tmp_path / "data" / "data.mdb", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_an_interrupted_restore_left_is_no_store_and_in_nobodys_way(backup, tmp_path, monkeypatch):
    """Killed before the end, it leaves no data.mdb; the next run begins anew and leaves nothing of it."""

    class Killed(BaseException):
        pass

    def kill(work: Path) -> None:
        shutil.copytree(tmp_path / "new", tmp_path / "left")
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(restoring, "put", kill)
        make(backup, tmp_path / "new", Point(position=CUT))
    left = tmp_path / "left"
    assert {entry.name for entry in left.iterdir()} == {WORK, "coordinator.lock"}
    assert make(backup, left).head.size > CUT
    assert {entry.name for entry in left.iterdir()} == {"data.mdb", "coordinator.lock"}


def test_two_runs_do_not_write_one_backup(tmp_path):
    """The second is refused while the first is at it; what a killed one left is used again, and goes."""
    target = tmp_path / "new.mdb"
    (tmp_path / "new.mdb.partial").write_bytes(b"left")
    with new_file(target) as file:
        assert file.path.read_bytes() == b""
        with pytest.raises(NotWritten, match="is being written by another process"), new_file(target):
            pass
        file.stream.write(b"whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["new.mdb"]
    assert target.read_bytes() == b"whole"


def test_a_run_that_came_late_does_not_touch_what_another_has_finished(tmp_path, monkeypatch):
    """It opened the file under its first name, which is that of the whole one by the time that it gets the lock."""
    target, lock = tmp_path / "new.mdb", fcntl.flock

    def finish(stream: object, how: int) -> None:
        (tmp_path / "new.mdb.partial").rename(target)
        target.write_bytes(b"whole")
        lock(stream, how)

    monkeypatch.setattr(fcntl, "flock", finish)
    with pytest.raises(NotWritten, match="was just finished by another"), new_file(target):
        pass
    assert target.read_bytes() == b"whole"


def test_a_full_disk_leaves_nothing(backup, tmp_path, monkeypatch):
    """The error names the reason, and the directory is gone."""

    def full(snapshot: object, made: Path, progress: object) -> None:
        made.write_bytes(b"beginning")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(restoring, "write_anew", full)
    with pytest.raises(OSError, match="No space"):
        make(backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_records_that_are_not_those_of_the_tree_are_refused(backup, tmp_path, monkeypatch):
    """What was taken in is held against the root over as many records of the backup."""
    monkeypatch.setattr(snapshots.LmdbReader, "root", lambda reader, size: bytes(32))
    with pytest.raises(Damaged, match="are not those that its tree stands for"):
        make(backup, tmp_path / "new", Point(position=CUT), quick=True)


def test_a_copy_in_the_directory_of_a_running_coordinator_is_looked_at_itself(data, backup):
    """A backup that lies beside the store is not taken for the store."""
    beside = Path(shutil.copy(backup, data / "beside.mdb"))
    engine = open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    try:
        flipped(beside)
        with pytest.raises((Damaged, Corrupt)):
            verified(beside, True, quiet)
        with pytest.raises(StoreError, match="a coordinator has .* open"):
            restore(data, data.parent / "new", None, True, b.OPERATOR_ACTOR, quiet)
    finally:
        engine.close()


@pytest.fixture(scope="module")
def retained(template, tmp_path_factory) -> Path:
    """The same past, after which some of the jobs lost their contents, their keys, or left the live store."""
    directory = shutil.copytree(template, tmp_path_factory.mktemp("retained") / "data")
    engine = open_engine(directory, READ_MODELS, MAP_SIZE, force_filesystem=True)
    retain(Driver(engine))
    engine.close()
    return directory


def jobs_of(data: Path) -> dict[str, Job]:
    engine = open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    with engine.read() as reader:
        jobs = {b.an_id(number): reader.job(b.an_id(number)) for number in range(1, JOBS + 1)}
    engine.close()
    return {job_id: job for job_id, job in jobs.items() if job is not None}


def test_what_was_erased_later_does_not_come_back_and_the_history_says_so(retained, backup, records, tmp_path):
    """Before an erasure or a retirement: such a job is erased again, and canceled if it had not ended; all others are
    what they were, and a full verification finds the store sound."""
    restored = restore(retained, tmp_path / "new", Point(position=CUT), False, b.OPERATOR_ACTOR, quiet)
    make(backup, tmp_path / "other", Point(position=CUT), quick=True)
    with open_source(tmp_path / "new") as source:
        texts, added = [text for _, text in source.texts()], list(source.records(after=CUT))
    assert texts[:CUT] == [entry.text for entry in records[:CUT]]
    assert {record.actor for record in added} == {b.OPERATOR_ACTOR}
    assert {record.event.reason for record in added} == {f"restored up to position {CUT}, before this was erased"}
    jobs, then = jobs_of(tmp_path / "new"), jobs_of(tmp_path / "other")
    gone = {record.job_id for record in added}
    assert (restored.records, restored.erased_jobs) == (CUT, len(gone)) and len(gone) > 10
    assert {job_id: job for job_id, job in jobs.items() if job_id not in gone} == {
        job_id: job for job_id, job in then.items() if job_id not in gone
    }
    for job_id in gone:
        ended = then[job_id].finished_at is not None
        assert jobs[job_id].erased and jobs[job_id].state == (then[job_id].state if ended else State.CANCELED)
    assert {then[job_id].state for job_id in gone} > {State.QUEUED, State.SUCCEEDED}


def test_at_a_point_after_all_erasures_nothing_is_added(retained, tmp_path):
    """What is gone is known to the log by then."""
    with open_source(retained) as source:
        size = source.head().size
    restored = restore(retained, tmp_path / "new", Point(position=size - 1), False, b.OPERATOR_ACTOR, quiet)
    assert (restored.records, restored.whole.head.size, restored.erased_jobs) == (size - 1, size - 1, 0)
