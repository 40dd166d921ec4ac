"""Projections of a store in a database: compared with what the log makes, put right, beside coordinators too."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from eventjobs.cli.main import cli
from eventjobs.cli.stores import Database
from eventjobs.testing import builders as b
from eventjobs.tools.rebuild.database import check, rebuild
from eventjobs.tools.rebuild.rebuild import PROJECTIONS

PAST = Path(__file__).parents[2] / "golden" / "postgres" / "1.sql.gz"
ALL = list(PROJECTIONS.values())
SPOIL = """
UPDATE eventjobs.jobs SET value = set_byte(value, 10, get_byte(value, 10) # 1)
    WHERE id = (SELECT id FROM eventjobs.jobs ORDER BY id LIMIT 1);
DELETE FROM eventjobs.jobs WHERE id = (SELECT id FROM eventjobs.jobs WHERE NOT waiting ORDER BY id DESC LIMIT 1);
UPDATE eventjobs.jobs SET run_at = run_at + 1, queue = 'elsewhere'
    WHERE id = (SELECT id FROM eventjobs.jobs WHERE waiting ORDER BY id LIMIT 1);
UPDATE eventjobs.jobs SET expires_at = 5 WHERE id = (SELECT id FROM eventjobs.jobs WHERE waiting ORDER BY id LIMIT 1);
DELETE FROM eventjobs.lanes;
DELETE FROM eventjobs.projection_listing
    WHERE key = (SELECT key FROM eventjobs.projection_listing ORDER BY key LIMIT 1);
INSERT INTO eventjobs.projection_history VALUES ('zzz', 'zzzzzz');
UPDATE eventjobs.projection_idempotency_keys SET value = 'nonsense';
INSERT INTO eventjobs.counter_deltas SELECT name, key, 1 FROM eventjobs.counter_deltas LIMIT 1;
INSERT INTO eventjobs.lease_requests VALUES (sha256('x'), 1, 9223372036854775807);
"""
SPOILED = {"jobs", "ready", "expiries", "listing", "history", "idempotency_keys", "stats", "lease_requests"}


def quiet(what: str, done: int, total: int) -> None:
    """Tells nobody."""


@pytest.fixture
def instance(make_instance, foreign):
    """A coordinator's engine over a store with a past, and jobs of all sorts in the present."""
    foreign.execute(gzip.decompress(PAST.read_bytes()))
    now = make_instance()
    now.enqueue(*[b.enqueue(b.an_id(5_000 + n), queue="now", idempotency_key=f"now-{n}") for n in range(4)])
    now.lease(2, b.lease(request_id="r"), queues=["now"])
    return now


def differing(findings) -> set[str]:
    return {finding.name for finding in findings if not finding.same}


def test_a_sound_store_is_the_same_and_not_written(instance, url, foreign):
    """Nothing differs, and a rebuild writes nothing."""
    written = "SELECT max(xmin::text::bigint), count(*) FROM eventjobs.jobs"
    before = foreign.execute(written).fetchone()
    assert differing(check(Database(url), ALL, quiet)) == set()
    assert differing(rebuild(Database(url), ALL, quiet)) == set()
    instance.engine.maintain()
    assert differing(check(Database(url), ALL, quiet)) == set()
    assert foreign.execute(written).fetchone() == before


def test_what_differs_is_counted_named_and_put_right(instance, url, foreign, sound):
    """Damaged rows, missing ones and some too many, in tables and in columns; afterwards all is as the log makes it."""
    foreign.execute(SPOIL)
    found = check(Database(url), ALL, quiet)
    assert differing(found) == SPOILED
    assert all(finding.first for finding in found if finding.differing)
    assert differing(check(Database(url), [PROJECTIONS["stats"]], quiet)) == {"stats"}
    assert differing(rebuild(Database(url), [PROJECTIONS["stats"]], quiet)) == {"stats"}
    assert differing(rebuild(Database(url), ALL, quiet)) == SPOILED - {"stats"}
    assert differing(check(Database(url), ALL, quiet)) == set()
    assert len(instance.lease(9, queues=["now"])) == 2
    sound(instance.engine)


def test_coordinators_go_on_during_a_rebuild(instance, make_instance, url, foreign, sound):
    """They write all the time; what they wrote meanwhile is in what was made, and none of it is lost."""
    foreign.execute(SPOIL)
    other, stopping, made = make_instance(), threading.Event(), []

    def write(instance, start):
        while not stopping.is_set():
            job_id = b.an_id(start + len(made))
            made.append(job_id)
            instance.enqueue(b.enqueue(job_id, queue="busy"))
            instance.complete(instance.lease(1, queues=["busy"]))

    writers = [threading.Thread(target=write, args=(each, 10_000 * n)) for n, each in enumerate((instance, other), 1)]
    for writer in writers:
        writer.start()
    try:
        assert differing(rebuild(Database(url), ALL, quiet)) == SPOILED
    finally:
        stopping.set()
        for writer in writers:
            writer.join()
    assert made and differing(check(Database(url), ALL, quiet)) == set()
    sound(instance.engine)


def test_one_of_an_older_rule_is_told_and_brought_up(instance, url, foreign):
    """As a start of a coordinator would do it."""
    foreign.execute("UPDATE eventjobs.projections SET version = 0 WHERE name = 'listing'")
    assert differing(check(Database(url), ALL, quiet)) == {"listing"}
    rebuild(Database(url), ALL, quiet)
    assert differing(check(Database(url), ALL, quiet)) == set()


def test_the_command(instance, url, foreign):
    """--store names the database; exit codes and output are those of a store in a directory."""
    run = CliRunner().invoke
    same = run(cli, ["rebuild", "--store", url, "--check"])
    assert same.exit_code == 0 and same.stdout.count(" same ") == len(ALL)
    foreign.execute(SPOIL)
    differs = run(cli, ["rebuild", "--store", url, "--check", "--only", "listing"])
    assert differs.exit_code == 1 and "1 differs (listing: " in differs.stdout
    done = run(cli, ["rebuild", "--store", url, "--json"])
    assert done.exit_code == 0
    assert {each["name"] for each in orjson.loads(done.stdout) if not each["same"]} == SPOILED
    missing = run(cli, ["rebuild", "--store", url.rpartition("/")[0] + "/postgres", "--check"])
    assert missing.exit_code == 2 and "there is no store" in missing.stderr
