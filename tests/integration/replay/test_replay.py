"""Replay: whatever is shown of a point of the log is what was stored when that point was its end."""

from __future__ import annotations

import io
import random
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import lmdb
import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.api.wire_time import time_text
from eventjobs.cli import exits
from eventjobs.cli.main import cli, main
from eventjobs.domain.job import Job
from eventjobs.projections import READ_MODELS, stats, stats_past
from eventjobs.store.contract import Reader
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools.replay import shelf
from eventjobs.tools.replay.fold import Fold, job_at
from eventjobs.tools.replay.statistics_at import numbers_at, numbers_folded
from eventjobs.tools.source import open_source

STEPS = 90
ABSENT = "01890a5d-ac96-774b-bcce-b302099a8057"


def step(driver: Driver, reader: Reader, chance: random.Random, ids: list[str], now: int) -> None:
    """One of the things that can happen."""
    if not ids or chance.random() < 0.25:
        ids.append(b.an_id(len(ids)))
        more = {"queue": f"q{len(ids) % 2}", "max_attempts": 2, "payload": b.content('"secret"')}
        driver.execute(b.enqueue(ids[-1], **more, now=now))
    elif chance.random() < 0.4:
        driver.lease(b.lease(now=now))
    elif chance.random() < 0.1:
        driver.expire(now)
    else:
        job = reader.job(chance.choice(ids))
        if job is None:
            return
        word = chance.choice([b.renew, b.complete, b.fail, b.release])
        command = word(job.id, token=job.lease_token, now=now) if job.lease else b.cancel(job.id, now=now)
        if job.finished_at is not None and chance.random() < 0.5:
            command = chance.choice([b.erase(job.id, now=now), b.retire(job.id, now=now)])
        elif job.state == "dead":
            command = b.requeue(job.id, now=now)
        driver.execute(command)


class Past:
    """A store, and what was in it after each of its positions: (time, jobs by id, statistics)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states: dict[int, tuple[int, dict[str, Job], stats.Stats]] = {}
        engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
        driver, chance, ids, now = Driver(engine), random.Random(5), [], b.at(0)
        while len(self.states) < STEPS:
            now += b.seconds(chance.choice([1, 9, 40]))
            with engine.read() as reader:
                step(driver, reader, chance, ids, now)
            with engine.read() as reader:
                size = reader.head().size
                if size:
                    jobs = {job_id: job for job_id in ids if (job := reader.job(job_id)) is not None}
                    self.states[size] = (reader.record(size).time, jobs, stats.read(reader))
        self.size = size
        engine.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """A store with every 16th position's snapshot in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_past, "SNAPSHOT_RECORDS", 16)
        return Past(tmp_path_factory.mktemp("past") / "data")


@pytest.fixture(autouse=True)
def snapshots_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", 16)


def run(*arguments: object, code: int = exits.DONE) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner(env={"TZ": "UTC"}).invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


@pytest.mark.parametrize("in_memory", [2, 30_000])
def test_every_position_is_what_was_stored_then(past, tmp_path, monkeypatch, in_memory):
    """All jobs and all numbers, at each position that a commit ended at, wherever the jobs are kept meanwhile."""
    monkeypatch.setattr(shelf, "IN_MEMORY_MAX", in_memory)
    with open_source(past.directory) as source, Scratch(tmp_path) as scratch:
        fold = Fold(source, scratch)
        for position, (_, jobs, _) in past.states.items():
            assert [record.position for _, record, _ in fold.advance(position)][-1] == fold.position == position
            assert {job.id: job for job in fold.jobs()} == jobs


def test_the_numbers_of_every_position(past, tmp_path):
    """From the snapshots, and folded from the beginning: those that were stored then."""
    for number, (position, (_, _, numbers)) in enumerate(past.states.items()):
        assert numbers_at(past.directory, position) == numbers
        if number % 10 == 0:
            directory = tmp_path / str(position)
            directory.mkdir()
            with open_source(past.directory) as source, Scratch(directory) as scratch:
                assert numbers_folded(Fold(source, scratch), position) == numbers


def test_one_job_by_position_and_by_time(past):
    """By its own records alone; before its first there is none."""
    with open_source(past.directory) as source:
        for position in list(past.states)[::9]:
            time, jobs, _ = past.states[position]
            for job_id, job in jobs.items():
                assert job_at(source, job_id, position).job == job
            gone = {record.job_id for record in islice(source.records(), position)} - jobs.keys()
            assert all(job_at(source, job_id, position).retired.position <= position for job_id in gone)
        assert gone
        first = source.record(1)
        assert job_at(source, ABSENT, past.size) is None
    for at in (position, time_text(time)):
        shown = orjson.loads(run("replay", "--data", past.directory, "--job", job.id, "--at", at, "--json").stdout)
        assert (shown["state"], shown["attempts"], shown["lease_token"]) == (job.state, job.attempts, job.lease_token)
    assert first.job_id in run("replay", "--data", past.directory, "--job", first.job_id, "--at", 1).stdout
    others = [job_id for job_id in jobs if job_id != first.job_id]
    refused = run("replay", "--data", past.directory, "--job", others[0], "--at", 1, code=exits.REFUSED).stderr
    assert f"there is no job {others[0]} at position 1" in refused


def test_everything_at_a_point(past):
    """As a table, as a document, and as lines with a job each; of one queue too. No content is shown."""
    position = list(past.states)[-20]
    time, jobs, numbers = past.states[position]
    place = ("replay", "--data", past.directory, "--at", position)
    document = orjson.loads(run(*place, "--json").stdout)
    assert (document["position"], document["time"]) == (position, time_text(time))
    assert (document["jobs"], document["queues"]) == (numbers.jobs, numbers.queues)
    table = [line.split() for line in run(*place).stdout.splitlines()]
    assert table[0] == ["queue", *numbers.jobs] and table[-2] == ["all", *map(str, numbers.jobs.values())]
    lines = [orjson.loads(line) for line in run(*place, "--jobs").stdout.splitlines()]
    assert {each["id"]: each["state"] for each in lines} == {job_id: job.state for job_id, job in jobs.items()}
    assert "secret" not in run(*place, "--jobs").stdout and lines[0]["payload"] == {"size": len('"secret"')}
    lines = [orjson.loads(line) for line in run(*place, "--jobs", "--queue", "q1").stdout.splitlines()]
    assert {each["id"] for each in lines} == {job_id for job_id, job in jobs.items() if job.spec.queue == "q1"}
    document = orjson.loads(run(*place, "--queue", "q1", "--json").stdout)
    assert document["jobs"] == numbers.queues["q1"]
    assert "no queue q7" in run(*place, "--queue", "q7", code=exits.REFUSED).stderr


def test_what_changed_between_two_points(past):
    """Exactly the jobs with records in between: how they stood before and after, and their last event."""
    first, last = list(past.states)[20], list(past.states)[60]
    before, after = past.states[first][1], past.states[last][1]
    shown = run("replay", "--data", past.directory, "--diff", first, last, "--json").stdout.splitlines()
    found = {each["id"]: each for each in map(orjson.loads, shown)}
    with open_source(past.directory) as source:
        records = list(islice(source.records(), first, last))
    assert found.keys() == {record.job_id for record in records} >= before.keys() - after.keys() != set()
    for job_id, change in found.items():
        for name, jobs in (("before", before), ("after", after)):
            job = jobs.get(job_id)
            told = (
                None if job is None else {"state": job.state, "attempts": job.attempts, "lease_token": job.lease_token}
            )
            assert change[name] == told
        own = [record for record in records if record.job_id == job_id]
        assert (change["events"], change["last"]["position"]) == (len(own), own[-1].position)
    lines = run("replay", "--data", past.directory, "--diff", first, last).stdout.splitlines()
    gone = [line for line in lines if "retired, before: state " in line]
    assert len(gone) == len(before.keys() - after.keys())
    assert len(lines) == len(found) + 1 and lines[-1].startswith(f"{len(found)} jobs changed")
    assert run("replay", "--data", past.directory, "--diff", last, last).stdout.startswith("0 jobs changed")
    only = run("replay", "--data", past.directory, "--diff", first, last, "--job", next(iter(found)), "--json").stdout
    assert len(only.splitlines()) == 1
    told = run("replay", "--data", past.directory, "--diff", first, last, "--queue", "q1").stdout.splitlines()
    own = Counter(record.event.type for record in records if found[record.job_id]["queue"] == "q1")
    types = ", ".join(f"{number} {name}" for name, number in sorted(own.items()))
    assert told[-1] == f"{len(told) - 1} jobs changed from position {first} to {last}: {types}"
    assert "is before" in run("replay", "--data", past.directory, "--diff", last, first, code=exits.REFUSED).stderr


def test_a_time_after_the_last_record_is_its_end(past):
    """Until now nothing came since, so it is what the last position shows; a time to come may bring more."""
    end = run("replay", "--data", past.directory, "--json").stdout
    last = past.states[past.size][0]
    for time in (last, last + 1, last + b.seconds(10_000)):
        assert run("replay", "--data", past.directory, "--at", time_text(time), "--json").stdout == end
    first = past.states[1][0]
    assert orjson.loads(run("replay", "--data", past.directory, "--at", time_text(first), "--json").stdout)["position"]
    for time in (first - 1, b.at(10**9)):
        run("replay", "--data", past.directory, "--at", time_text(time), code=exits.REFUSED)


@pytest.mark.parametrize(
    "command", [("replay", "--data", "{}", "--at"), ("restore", "{}", "--quick", "--data", "new", "--until")]
)
def test_points_that_there_are_not(past, tmp_path, monkeypatch, command):
    """Beyond the end, before the beginning, to come: said in the same words wherever a point is asked for."""
    monkeypatch.chdir(tmp_path)
    command = [str(past.directory) if part == "{}" else part for part in command]
    for at, reason in (
        (past.size + 1, f"the point must be a position from 1 to {past.size}: the log has no others"),
        ("2199-01-01T00:00:00Z", "the point must not be later than now, 20"),
        ("1999-01-01T00:00:00Z", f"the point must not be earlier than {time_text(past.states[1][0])}: the log begins"),
    ):
        assert reason in run(*command, at, code=exits.REFUSED).stderr
    for at in ("0", "noon", "2026-02-30T00:00:00Z"):
        run(*command, at, code=exits.USAGE)
    assert not list(tmp_path.iterdir())


def test_what_replay_cannot_do(past, tmp_path):
    """No store, no such job, options that do not go together: said clearly, with its exit code."""
    for wrong in (
        ("--at", 1, "--diff", 1, 2),
        ("--jobs", "--diff", 1, 2),
        ("--job", ABSENT, "--queue", "q"),
        ("--job", ABSENT, "--jobs"),
    ):
        run("replay", "--data", past.directory, *wrong, code=exits.USAGE)
    for command in (("replay",), ("history", ABSENT)):
        assert "no store" in run(*command, "--data", tmp_path / "gone", code=exits.USAGE).stderr
    assert "there is no job" in run("history", ABSENT, "--data", past.directory, code=exits.REFUSED).stderr


def test_a_damaged_record_in_the_middle(past, tmp_path):
    """The position is named, nothing is skipped, and the exit code is 1; what lies before can still be replayed."""
    copy = tmp_path / "data.mdb"
    copy.write_bytes((past.directory / "data.mdb").read_bytes())
    key = (40).to_bytes(8, "big")
    with lmdb.open(str(tmp_path), max_dbs=64, map_size=64 << 20) as env, env.begin(write=True) as txn:
        log = env.open_db(b"log", txn=txn)
        stored = bytearray(txn.get(key, db=log))
        stored[-1] ^= 1
        txn.put(key, bytes(stored), db=log)
    (tmp_path / "lock.mdb").unlink()
    with open_source(past.directory) as source:
        job_id = source.record(40).job_id
    for arguments in (("replay", "--jobs"), ("replay", "--diff", 1, 50), ("history", job_id)):
        refused = run(*arguments, "--data", copy, code=exits.REFUSED).stderr
        assert "the record at position 40" in refused and "does not match its checksum" in refused
    assert orjson.loads(run("replay", "--data", copy, "--at", 30, "--json").stdout)["position"] == 30


def test_the_history_in_a_store_is_that_of_the_log(past):
    """Every event of the job in order, with attempt, token and reason."""
    with open_source(past.directory) as source:
        records = list(source.records())
    job_id = records[0].job_id
    told = orjson.loads(run("history", job_id, "--data", past.directory, "--json").stdout)["events"]
    own = [record for record in records if record.job_id == job_id]
    assert [(each["position"], each["type"]) for each in told] == [(each.position, each.event.type) for each in own]
    assert len(run("history", job_id, "--data", past.directory).stdout.splitlines()) == len(own) + 1


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", "\\xe9 \\u65e5"), ("utf-8", "é 日"), ("latin-1", "é \\u65e5")]
)
def test_any_text_is_shown_on_any_terminal(tmp_path, monkeypatch, encoding, shown):
    """What the terminal's encoding has no sign for is shown by its code; a document stays UTF-8."""
    engine = open_engine(tmp_path, READ_MODELS, 64 << 20, force_filesystem=True)
    driver = Driver(engine)
    driver.execute(b.enqueue(b.an_id(1)))
    driver.execute(b.cancel(b.an_id(1), reason="é 日"))
    engine.close()

    def said(*arguments: str) -> bytes:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
            patch.setattr(sys, "stdout", stream)
            main([*arguments, "--data", str(tmp_path)])
        assert ended.value.code == exits.DONE
        stream.flush()
        return stream.buffer.getvalue()

    assert shown in said("history", b.an_id(1)).decode(encoding)
    assert b"job_canceled" in said("replay", "--diff", "1", "2")
    assert "é 日" in said("history", b.an_id(1), "--json").decode()
