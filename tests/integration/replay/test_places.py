"""The past is told alike from wherever a log lies: a directory, with an archive or without, a backup, an export, a
database."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import psycopg
import pytest
from click.testing import CliRunner, Result

from eventjobs.api.wire_time import time_text
from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.cli.stores import Database
from eventjobs.domain.job import ContentRef
from eventjobs.projections import READ_MODELS, stats_past
from eventjobs.store.archive import Archive
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import JOBS, live, retain
from eventjobs.tools import export_source
from eventjobs.tools.replay.statistics_at import numbers_at
from eventjobs.tools.source import StoreSource, open_source

MIDDLE = 700


def run(*arguments: object, code: int = exits.DONE) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner(env={"TZ": "UTC"}).invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a past, of which some contents, keys and jobs are gone."""
    directory = tmp_path_factory.mktemp("lived") / "data"
    engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
    live(Driver(engine))
    retain(Driver(engine))
    engine.close()
    return directory


@pytest.fixture(scope="module")
def exported(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export."""
    file = tmp_path_factory.mktemp("exported") / "log.jsonl"
    run("export", "--data", lived, "--out", file)
    return file


@pytest.fixture(scope="module")
def archived(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store, most of its log in an archive."""
    directory = shutil.copytree(lived, tmp_path_factory.mktemp("archived") / "data")
    (directory / "archive").mkdir()
    save_manifest(directory / "archive", Manifest(8))
    engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
    while engine.seal(2**62, lambda: None) or engine.empty():
        pass
    assert engine.archive.end > MIDDLE
    engine.close()
    return directory


@pytest.fixture(scope="module")
def answers(lived: Path) -> dict[tuple, str]:
    """What is said of the directory, by the question."""
    with open_source(lived) as source:
        records, size = list(source.records()), source.head().size
    retired = next(record.job_id for record in records if record.event.type == "job_retired")
    then, later = records[MIDDLE].time, time_text(records[-1].time + b.seconds(5))
    questions: list[tuple] = [("replay", "--at", at, "--json") for at in (1, MIDDLE, size, time_text(then), later)]
    questions += [("replay", "--queue", "queue-1"), ("replay", "--jobs"), ("replay", "--jobs", "--at", MIDDLE)]
    questions += [("replay", "--diff", 20, MIDDLE), ("replay", "--diff", MIDDLE, size, "--json")]
    questions += [("replay", "--job", job, "--at", MIDDLE) for job in (retired, b.an_id(5))]
    questions += [("history", job, "--json") for job in (retired, b.an_id(5), b.an_id(8))]
    questions += [("why", job) for job in (retired, b.an_id(5), b.an_id(8))]
    return {question: run(*question, "--data", lived).stdout for question in questions}


def made_backup(lived: Path, tmp_path: Path) -> Path:
    run("backup", tmp_path / "backup.mdb", "--data", lived, "--quick")
    return tmp_path / "backup.mdb"


PLACES: dict[str, Callable[[pytest.FixtureRequest], object]] = {
    "backup": lambda request: made_backup(*map(request.getfixturevalue, ("lived", "tmp_path"))),
    "export": lambda request: request.getfixturevalue("exported"),
    "archive": lambda request: request.getfixturevalue("archived"),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_past_is_the_same_wherever_the_log_lies(request, answers, name):
    """Numbers, jobs, changes and histories, by position and by time."""
    place = PLACES[name](request)
    for question, answer in answers.items():
        assert run(*question, "--data", place).stdout == answer, question


def test_the_past_of_a_database(exported, answers, postgres_url, monkeypatch):
    """The same once more; the numbers come from its snapshots, as long as they are kept by this code's rule."""
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", 64)
    run("import", exported, "--store", postgres_url)
    assert numbers_at(Database(postgres_url), MIDDLE).jobs["queued"]
    for question, answer in answers.items():
        assert run(*question, "--store", postgres_url).stdout == answer, question
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE eventjobs.projections SET version = version - 1 WHERE name = 'stats'")
    assert numbers_at(Database(postgres_url), MIDDLE) is None
    question = ("replay", "--at", MIDDLE, "--json")
    assert run(*question, "--store", postgres_url).stdout == answers[question]
    assert "secret" not in run("history", b.an_id(9_999), "--store", postgres_url, code=exits.REFUSED).stderr


REASONS = {
    "scheduled": r"is queued: scheduled for 2\d{3}",
    "due": r"is queued: it can be leased; who asks for jobs is known to a running coordinator alone$",
    "running": r"is running: worker worker-1 has it until 2\d{3}",
    "expiring": r"is running: the lease of worker worker-1 ran out at 2\d{3}.*, and no coordinator has ended it yet$",
    "waiting_for_retry": r"is failed: attempt 1 of 3 failed with E: m; the next is not before ",
    "dead": r"is dead: given up at 2\d{3}.*; last error: E: m$",
    "canceled": r"is canceled: operator \S+ canceled it at 2\d{3}.*: no$",
    "succeeded": r"is succeeded: worker worker-1 completed it at 2\d{3}.* \(attempt 1 of 1\)$",
    "retired": r"is succeeded: worker .* completed it at .*; coordinator retention retired it at .*: succeeded 1s$",
}


@pytest.mark.parametrize("place", ["store", "export"])
def test_why_without_a_coordinator(tmp_path, place):
    """Each reason that the log knows, in a sentence and as the document that HTTP gives."""
    engine = open_engine(tmp_path / "store", READ_MODELS, 64 << 20, force_filesystem=True)
    driver, now = Driver(engine), time.time_ns() // 1_000
    ids = {reason: b.an_id(number) for number, reason in enumerate(REASONS)}
    waits = ("scheduled", "due", "canceled")
    for reason, job_id in ids.items():
        if reason not in waits:
            attempts = 1 if reason in ("succeeded", "dead") else 3
            driver.execute(b.enqueue(job_id, max_attempts=attempts, now=now))
            driver.lease(b.lease(now=now, duration=1 if reason == "expiring" else b.seconds(6_000)))
    error = b.content('{"type":"E","message":"m"}')
    driver.execute(
        b.fail(ids["waiting_for_retry"], error=error, delay=b.seconds(6_000), now=now),
        b.fail(ids["dead"], error=error, now=now),
        b.complete(ids["succeeded"], now=now),
        b.complete(ids["retired"], now=now),
        b.retire(ids["retired"], now=now),
        b.enqueue(ids["scheduled"], delay=b.seconds(6_000), now=now),
        b.enqueue(ids["due"], now=now),
        b.enqueue(ids["canceled"], now=now),
        b.cancel(ids["canceled"], reason="no", now=now),
    )
    engine.close()
    run("export", "--data", tmp_path / "store", "--out", tmp_path / "export")
    for reason, job_id in ids.items():
        said = run("why", job_id, "--data", tmp_path / place).stdout
        assert re.search(REASONS[reason], said.strip()), (reason, said)
        found = orjson.loads(run("why", job_id, "--data", tmp_path / place, "--json").stdout)
        assert (found["reason"], found["asked"], found["retired"] is None) == (reason, None, reason != "retired")
    assert "there is no job" in run("why", b.an_id(99), "--data", tmp_path / place, code=exits.REFUSED).stderr


def test_an_error_that_is_erased_meanwhile_is_no_damage(lived, tmp_path, monkeypatch):
    """Between the reading of the log and that of the error a coordinator may erase it, and say so in the log."""
    directory = shutil.copytree(lived, tmp_path / "data")
    engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
    with engine.read() as reader:
        jobs = [job for number in range(1, JOBS + 1) if (job := reader.job(b.an_id(number))) is not None]
    dead, other = [job.id for job in jobs if job.state == "dead" and job.error is not None][:2]
    engine.close()
    content = StoreSource.content

    def erased_first(self: StoreSource, ref: ContentRef) -> bytes:
        engine = open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)
        Driver(engine).execute(b.erase(dead, now=b.at(20_000)))
        engine.close()
        return content(self, ref)

    monkeypatch.setattr(StoreSource, "content", erased_first)
    found = orjson.loads(run("why", dead, "--data", directory, "--json").stdout)
    assert (found["reason"], found["error"], "error" in found["erased"]) == ("dead", None, True)
    assert found["erasures"][-1]["time"] == time_text(b.at(20_000))
    monkeypatch.setattr(StoreSource, "content", lambda self, ref: content(self, ContentRef(9_999, 1)))
    assert "is missing" in run("why", other, "--data", directory, code=exits.REFUSED).stderr


def test_no_store_in_a_database(postgres_url):
    """An empty one, and one that is away."""
    away = "postgresql://nobody:secret@127.0.0.1:1/none"
    for command in (("replay",), ("history", b.an_id(1)), ("why", b.an_id(1))):
        assert "there is no store" in run(*command, "--store", postgres_url, code=exits.USAGE).stderr
        said = run(*command, "--store", away, code=exits.USAGE).stderr
        assert "cannot be reached" in said and "secret" not in said


def test_an_archive_is_asked_for_a_job_and_not_read_through(archived, monkeypatch):
    """Its files say where a job's records are; one that they leave out is missed by its version."""
    read = []
    texts = Archive.texts
    monkeypatch.setattr(Archive, "texts", lambda self, after, limit: read.append(limit) or texts(self, after, limit))
    events = orjson.loads(run("history", b.an_id(5), "--data", archived, "--json").stdout)["events"]
    with open_source(archived) as source:
        end = Archive(archived / "archive").end
        assert sum(event["position"] <= end for event in events) == sum(read) < 20
        assert source.head().size > end
    places = Archive.positions_of
    monkeypatch.setattr(Archive, "positions_of", lambda self, job_id: list(places(self, job_id))[1:])
    assert "after 0" in run("history", b.an_id(5), "--data", archived, code=exits.REFUSED).stderr


def test_an_export_is_a_source(lived, exported, monkeypatch):
    """Every entry from any position on, every record and content by its position, None outside of the log."""
    monkeypatch.setattr(export_source, "SCAN_BYTES", 600)
    with open_source(lived) as one, open_source(exported) as other:
        assert other.head() == other.follow() == one.head()
        entries = list(one.entries())
        for after in (0, 255, 256, 257, one.head().size - 3):
            assert list(other.entries(after)) == entries[after:]
            assert list(other.texts(after)) == [(entry.position, entry.text) for entry in entries[after:]]
        assert list(other.records()) == list(one.records())
        for entry in entries[::37] + entries[-1:]:
            assert other.record(entry.position) == entry.record()
        for entry in [entry for entry in entries if entry.content is not None][::37]:
            ref = ContentRef(entry.position, 1)
            assert other.content(ref) == one.content(ref)
        assert other.record(0) is other.record(one.head().size + 1) is None
        for position in (next(entry.position for entry in entries if entry.content is None), 99_999):
            with pytest.raises(Corrupt, match=f"position {position} is missing"):
                other.content(ContentRef(position, 1))


def test_an_empty_log_is_exported_and_replayed(tmp_path):
    """It has no jobs and no points."""
    open_engine(tmp_path / "data", READ_MODELS, force_filesystem=True).close()
    run("export", "--data", tmp_path / "data", "--out", tmp_path / "log")
    for place in ("data", "log"):
        assert orjson.loads(run("replay", "--data", tmp_path / place, "--json").stdout)["position"] == 0
        assert "is empty" in run("replay", "--data", tmp_path / place, "--at", 1, code=exits.REFUSED).stderr


def altered(text: bytes, position: int) -> bytes:
    """The export with one letter of a record changed."""
    at = text.index(b'\n{"position":%d,' % position)
    return text[:at] + text[at:].replace(b'"version":', b'"Version":', 1)


SPOILT = {
    "altered in a block": (lambda text: altered(text, 300), "positions 257 to 512 are not what their root stands for"),
    "altered at the end": (lambda text: altered(text, text.count(b'\n{"position":')), "the last line is not that of"),
    "cut off": (lambda text: text[:-40], "it was cut off"),
    "cut off after a line": (lambda text: text[: text.rindex(b"\n", 0, -1) + 1], "it was cut off"),
    "a line less": (lambda text: text.replace(text[text.index(b'{"block"') :].split(b"\n")[0] + b"\n", b""), "belongs"),
    "of a newer form": (lambda text: text.replace(b'"version":1', b'"version":9', 1), "use a newer one"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_an_export_that_is_damaged_is_not_read_on(exported, tmp_path, name):
    """It is said what is wrong, and the exit code is 1; no part of what was altered is shown."""
    spoil, says = SPOILT[name]
    (tmp_path / "bad").write_bytes(spoil(exported.read_bytes()))
    for command in (("replay", "--jobs"), ("replay", "--at", "2026-11-01T00:00:00Z"), ("history", b.an_id(5))):
        refused = run(*command, "--data", tmp_path / "bad", code=exits.REFUSED)
        assert says in refused.stderr and str(tmp_path / "bad") in refused.stderr and not refused.stdout


def test_before_the_damage_an_export_can_be_replayed(exported, tmp_path):
    """As a store can."""
    (tmp_path / "bad").write_bytes(altered(exported.read_bytes(), 600))
    assert run("replay", "--data", tmp_path / "bad", "--at", 500).stdout == run(
        "replay", "--data", exported, "--at", 500
    ).stdout  # fmt: skip


@pytest.mark.parametrize("name", ["lived", "exported"])
def test_reading_is_told_of(request, name):
    """To its end, wherever the log lies."""
    told = []
    with open_source(request.getfixturevalue(name), lambda *how_far: told.append(how_far)) as source:
        size = len(list(source.texts()))
    assert {(what, total) for what, _, total in told} == {("log", size)}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told) and told[-1][1] >= size - 255
