"""Moving over: a log that was made in a directory goes into a PostgreSQL database, and back, and is the same log."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import psycopg
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.cli.stores import Database
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb import open_engine
from eventjobs.store.postgres import open_engine as open_database
from eventjobs.store.postgres.filling import Filling
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import live, retain
from eventjobs.testing.processes import CoordinatorProcess, wait_for
from eventjobs.tools import source as module
from eventjobs.tools.newstore import TargetInUse
from eventjobs.tools.source import open_source


def run(*arguments: object, code: int = exits.DONE, given: bytes | None = None) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments], input=given)
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
def exported(lived: Path) -> bytes:
    """Its export."""
    return run("export", "--data", lived).stdout_bytes


def has_store(url: str) -> bool:
    """Whether anything of a store is in the database."""
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT to_regnamespace('eventjobs')").fetchone()[0] is not None


def test_a_log_moves_over_and_back(lived, exported, postgres_url, tmp_path):
    """Into a database and out again, and into a directory: byte for byte, with every row as if it had been made there;
    heads, proofs and histories are the same from either."""
    assert "imported: " in run("import", "-", "--store", postgres_url, given=exported).output
    again = run("export", "--store", postgres_url).stdout_bytes
    assert again == exported
    run("import", "-", "--data", tmp_path / "made", given=again)
    run("verify", tmp_path / "made")
    assert run("export", "--data", tmp_path / "made").stdout_bytes == exported
    for arguments in (("head",), ("prove", "300"), ("history", b.an_id(8))):
        in_database = run(*arguments, "--store", postgres_url).output
        assert in_database == run(*arguments, "--data", lived).output


def rows_of(url: str) -> dict[str, list[tuple]]:
    """What is in the tables of a database, with counters added up; lanes, which may stay behind, left out."""
    with psycopg.connect(url) as connection:
        schema = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'eventjobs'"
        names = [name for (name,) in connection.execute(schema)]
        found = {name: connection.execute(f"SELECT * FROM eventjobs.{name}").fetchall() for name in names}
    counters: Counter[tuple[str, bytes]] = Counter()
    for name, key, value in found.pop("counters") + found.pop("counter_deltas"):
        counters[name, key] += int(value)
    del found["meta"], found["lanes"]
    return {name: sorted(rows, key=repr) for name, rows in found.items()} | {"counters": sorted((+counters).items())}


def test_every_row_is_what_is_made_of_the_log(exported, postgres_url):
    """Jobs, indexes and read models that are made anew when the store is opened are those that the import made."""
    run("import", "-", "--store", postgres_url, given=exported)
    before = rows_of(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE eventjobs.projections SET version = 0")
    open_database(postgres_url, READ_MODELS).close()
    assert rows_of(postgres_url) == before
    assert len(before["jobs"]) > 100 and len(before["lease_requests"]) > 10


def test_a_coordinator_goes_on_where_the_other_stopped(tmp_path, postgres_url):
    """A running job is completed with its token, tokens grow on, a known key finds its job, and the new log begins with
    the old one."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with CoordinatorProcess(tmp_path / "old") as old:
        order = {"kind": "email", "payload": [1.50], "idempotency_key": "k-1"}
        _, first = old.ask("/jobs", order)
        _, second = old.ask("/jobs", {"kind": "email"})
        lease = {"worker": "w", "lease_seconds": 600, "max_jobs": 2, "request_id": "r-1"}
        granted = old.ask("/lease", lease)[1]["jobs"]
        old.ask(f"/jobs/{second['id']}/release", {"token": 1})
        assert old.stop() == exits.DONE
        (tmp_path / "kept").write_text(run("head", "--data", old.data).output)
        content = run("export", "--data", old.data).stdout_bytes
    run("import", "-", "--store", postgres_url, given=content)
    with CoordinatorProcess(tmp_path / "new", store=postgres_url) as new:
        assert new.ask("/jobs", order) == (200, granted[0])
        assert new.ask("/jobs", {**order, "payload": [2]})[1]["code"] == "idempotency_key_reused"
        assert [job["id"] for job in new.ask("/lease", lease)[1]["jobs"]] == [first["id"]]
        _, leased = new.ask("/lease", {"worker": "w", "max_jobs": 9})
        assert [(job["id"], job["lease_token"]) for job in leased["jobs"]] == [(second["id"], 2)]
        status, done = new.ask(f"/jobs/{first['id']}/complete", {"token": 1, "result": None})
        assert (status, done["state"]) == (200, "succeeded")
        assert new.ask(f"/jobs/{second['id']}/complete", {"token": 1})[1]["code"] == "stale_token"
        states = new.ask("/stats")[1]["jobs"]
        assert (states["running"], states["succeeded"], sum(states.values())) == (1, 1, 2)
        run("prove", "--from-head", tmp_path / "kept", "--store", postgres_url)
        moved = run("export", "--store", postgres_url).stdout_bytes
    begin = content.splitlines()[1:-1]
    assert moved.splitlines()[1 : len(begin) + 1] == begin


def test_a_database_that_has_a_store_is_left_as_it_is(exported, postgres_url):
    """Also an empty one: it may be served."""
    open_database(postgres_url, READ_MODELS).close()
    said = run("import", "-", "--store", postgres_url, given=exported, code=exits.USAGE).output
    assert "has a store already" in said and "postgresql://" not in said
    assert orjson.loads(run("export", "--store", postgres_url).stdout_bytes.splitlines()[-1])["end"]["size"] == 0


def test_nothing_is_left_of_an_import_that_was_refused_or_killed(exported, postgres_url):
    """Not a table; and the next one goes through."""
    damaged = exported.replace(b'"priority":1', b'"priority":2', 1)
    run("import", "-", "--store", postgres_url, given=damaged, code=exits.REFUSED)
    assert not has_store(postgres_url)
    command = [sys.executable, "-m", "eventjobs", "import", "-", "--store", postgres_url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.stdin.write(exported[: len(exported) // 2])
    process.stdin.flush()
    busy = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        wait_for(lambda: connection.execute(busy).fetchone(), "the import to begin")
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        wait_for(lambda: connection.execute(busy).fetchone() is None, "the database to notice")
    assert not has_store(postgres_url)
    run("import", "-", "--store", postgres_url, given=exported)


def test_what_is_not_there_is_told(exported, tmp_path, postgres_url):
    """A database without a store, one that cannot be reached, a URL of something else, and two places at once."""
    for name in ("export", "head"):
        assert "there is no store" in run(name, "--store", postgres_url, code=exits.USAGE).output
    assert "there is no store" in run("verify", postgres_url, code=exits.USAGE).output
    away = "postgresql://nobody:secret@127.0.0.1:1/none"
    for arguments in (("export",), ("import", "-")):
        said = run(*arguments, "--store", away, code=exits.USAGE, given=exported).output
        assert "cannot be reached" in said and "secret" not in said
        run(*arguments, "--store", "mysql://x", code=exits.USAGE, given=exported)
        run(*arguments, "--store", postgres_url, "--data", tmp_path, code=exits.USAGE, given=exported)
    assert not has_store(postgres_url)


def test_a_directory_that_is_named_wins_over_the_environment(lived, exported, postgres_url, monkeypatch):
    """EVENTJOBS_STORE stands back before --data, and is used without it."""
    monkeypatch.setenv("EVENTJOBS_STORE", postgres_url)
    assert run("export", "--data", lived).stdout_bytes == exported
    run("import", "-", given=exported)
    assert run("export").stdout_bytes == exported


def test_the_source_reads_in_stretches(lived, exported, postgres_url, monkeypatch):
    """Whatever ends them, records or bytes: the same entries as from the directory; and single ones by position."""
    run("import", "-", "--store", postgres_url, given=exported)
    with open_source(lived) as one, open_source(Database(postgres_url)) as other:
        entries = list(one.entries())
        for records, size in ((7, 1 << 20), (4_096, 50)):
            monkeypatch.setattr(module, "STRETCH_RECORDS", records)
            monkeypatch.setattr(module, "STRETCH_BYTES", size)
            assert list(other.entries()) == entries
        assert other.head() == one.head()
        assert other.record(1) == one.record(1)
        assert other.record(0) is other.record(one.head().size + 1) is None
        found = next(entry for entry in entries if entry.content is not None)
        assert other.content(module.ContentRef(found.position, 1)) == found.content.text
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE eventjobs.log SET value = value || 'x' WHERE position = 5")
        with pytest.raises(Corrupt, match="checksum"):
            list(other.texts())


def test_a_database_is_verified(lived, exported, postgres_url, tmp_path):
    """Sound as it came in, and beginning with the head that was kept; what was altered in it afterwards is found."""
    run("import", "-", "--store", postgres_url, given=exported)
    (tmp_path / "kept").write_text(run("head", "--data", lived).output)
    said = run("verify", postgres_url, "--from-head", tmp_path / "kept", "--json").output
    report = orjson.loads(said)
    names = ["reading", "records", "tree", "kept head", "events", "contents"]
    assert ([check["name"] for check in report["checks"]], report["outcome"]) == (names, "sound")
    assert "postgresql://" not in said
    run("verify", postgres_url, "--quick")
    spoilt = {
        "UPDATE eventjobs.log SET value = set_byte(value, 30, 7) WHERE position = 300": "the record at position 300",
        "DELETE FROM eventjobs.log WHERE position = 300": "position 300 is missing",
        "DELETE FROM eventjobs.contents WHERE position = 1": "the payload of position 1 is missing",
        "UPDATE eventjobs.contents SET value = set_byte(value, 9, 7) WHERE position = 1": "checksum",
    }
    for statement, words in spoilt.items():
        with psycopg.connect(postgres_url) as connection:
            connection.execute("CREATE TABLE kept_log AS SELECT * FROM eventjobs.log")
            connection.execute("CREATE TABLE kept_contents AS SELECT * FROM eventjobs.contents")
            connection.execute(statement)
        told = run("verify", postgres_url, code=exits.REFUSED).output
        assert words in told
        assert f"\ndamaged: {report['size']:,} records, root {report['root']}" in told
        with psycopg.connect(postgres_url) as connection:
            for table in ("log", "contents"):
                connection.execute(f"DELETE FROM eventjobs.{table}")
                connection.execute(f"INSERT INTO eventjobs.{table} SELECT * FROM kept_{table}")
                connection.execute(f"DROP TABLE kept_{table}")
    run("verify", postgres_url)


def test_nothing_is_seen_before_it_is_finished(lived, postgres_url):
    """Whatever was taken in by then, in however many pieces; and nothing is there if it is never finished."""
    with open_source(lived) as source:
        entries, head = list(source.entries()), source.head()
    for finished in (False, True):
        with Filling(postgres_url, READ_MODELS, TargetInUse) as filling:
            for begin in range(0, len(entries), 100):
                filling.take(entries[begin : begin + 100])
            assert not has_store(postgres_url)
            if finished:
                filling.finish()
        assert has_store(postgres_url) is finished
    with open_source(Database(postgres_url)) as source:
        assert (source.head(), list(source.entries())) == (head, entries)
    before = rows_of(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE eventjobs.projections SET version = 0")
    open_database(postgres_url, READ_MODELS).close()
    assert rows_of(postgres_url) == before


def test_what_cannot_come_next_is_not_taken(postgres_url, exported):
    """A filling takes a log from its beginning, in order; and only where there is none."""
    records = [line for line in exported.splitlines() if line.startswith(b'{"position"')]
    with (
        Filling(postgres_url, READ_MODELS, TargetInUse) as filling,
        pytest.raises(Corrupt, match="position 1 comes next"),
    ):
        filling.take([module.Entry(2, records[1], None)])
    assert not has_store(postgres_url)
