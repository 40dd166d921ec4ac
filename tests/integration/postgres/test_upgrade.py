"""Stores of older programs: brought up by this one as a whole or not at all, with older coordinators beside it.

`tests/golden/postgres/N.sql.gz` is what a program of schema N had in a database, as SQL. What it answered is in the
golden folder whose export it was made of.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import psycopg
import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StoreError, TryAgain
from eventjobs.store.indexes import INDEXES
from eventjobs.store.postgres import open_engine, schema
from eventjobs.store.postgres.settings import bounded
from eventjobs.testing import builders as b
from eventjobs.testing.answers import answers

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMAS = sorted((GOLDEN / "postgres").glob("*.sql.gz"))
MADE_OF = {"1": "2"}
"""By schema, the golden folder whose log it is."""
PROJECTIONS = {
    1: "jobs ready expiries idempotency_keys lease_requests endings listing dead_list history stats",
    2: "jobs ready expiries idempotency_keys lease_requests endings listing dead_list history stats",
}
"""By schema, what its programs keep."""
ALL_THERE_IS = """
SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'eventjobs'
UNION ALL SELECT name, number::text, '' FROM eventjobs.meta
UNION ALL SELECT routine_name, md5(routine_definition), '' FROM information_schema.routines
    WHERE routine_schema = 'eventjobs'
ORDER BY 1, 2
"""


@pytest.fixture(params=SCHEMAS, ids=lambda path: path.name.split(".")[0])
def older(request, url, foreign) -> str:
    """The database has a store of an older schema. Its number."""
    foreign.execute(gzip.decompress(request.param.read_bytes()))
    return request.param.name.split(".")[0]


@pytest.fixture
def older_program(monkeypatch):
    """Whatever is opened while it is in force takes itself for a program of an older schema. (number)"""

    def of(number: str) -> pytest.MonkeyPatch:
        monkeypatch.setattr(schema, "SCHEMA_VERSION", int(number))
        return monkeypatch

    return of


def schema_of(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT number FROM eventjobs.meta WHERE name = 'schema'").fetchone()[0]


def test_every_older_schema_is_kept():
    """Whoever raises the schema's version keeps what the version before made."""
    assert [int(path.name.split(".")[0]) for path in SCHEMAS] == list(range(1, schema.SCHEMA_VERSION))
    assert MADE_OF.keys() == {path.name.split(".")[0] for path in SCHEMAS}


def test_two_that_start_at_once_bring_it_up(older, make_instance, foreign, at_once, sound):
    """The same jobs, statistics and head as before, in the present schema, and both go on."""
    first, second = at_once(make_instance, make_instance)
    expected = json.loads((GOLDEN / MADE_OF[older] / "answers.json").read_text())
    said = answers(second.engine)
    assert said["jobs"] == expected["jobs"]
    assert said["stats"]["head"] == expected["stats"]["head"] and said["stats"]["jobs"] == expected["stats"]["jobs"]
    assert schema_of(foreign) == schema.SCHEMA_VERSION
    first.enqueue(b.enqueue(b.an_id(9_001), kind="after"))
    (job,) = second.lease(1, kinds=["after"])
    first.complete([job])
    assert len(sound(second.engine)) == expected["stats"]["head"]["size"] + 3


def test_one_that_dies_in_the_middle_leaves_what_was_there(older, url, foreign, monkeypatch, make_instance, sound):
    """Its connection breaks after everything was made anew, before the commit: the old schema, whole; the next start
    does it."""
    before = foreign.execute(ALL_THERE_IS).fetchall()
    last = schema._MIGRATIONS[schema.SCHEMA_VERSION]
    dies = {schema.SCHEMA_VERSION: f"{last}; SELECT pg_terminate_backend(pg_backend_pid())"}
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_MIGRATIONS", schema._MIGRATIONS | dies)
        with pytest.raises(StoreError):
            open_engine(url, READ_MODELS)
    assert foreign.execute(ALL_THERE_IS).fetchall() == before
    sound(make_instance().engine)
    assert schema_of(foreign) == schema.SCHEMA_VERSION


def test_older_coordinators_go_on_beside_newer_ones(older, older_program, make_instance, foreign, sound):
    """As long as they keep the same projections: what either writes the other goes on with, and one that is started
    again in the meantime changes nothing."""
    old_program = older_program(older)
    old = make_instance()
    assert schema_of(foreign) == int(older)
    old_program.undo()
    new = make_instance()
    before = foreign.execute(ALL_THERE_IS).fetchall()
    old.enqueue(b.enqueue(b.an_id(9_001), kind="after"))
    (job,) = new.lease(1, kinds=["after"])
    old.complete([job])
    older_program(older)
    again = make_instance()
    again.enqueue(b.enqueue(b.an_id(9_002), kind="after"))
    assert [each.id for each in new.lease(1, kinds=["after"])] == [b.an_id(9_002)]
    assert foreign.execute(ALL_THERE_IS).fetchall() == before
    sound(new.engine)


def test_what_is_kept_changes_only_with_the_schema():
    """A program that keeps other projections takes them from those that do not: so it says that these are too old."""
    names = {number: set(text.split()) for number, text in PROJECTIONS.items()}
    assert {each.name for each in (*INDEXES, *READ_MODELS)} == names[schema.SCHEMA_VERSION]
    changed = [number for number in names if number > 1 and names[number] != names[number - 1]]
    assert max(changed, default=1) <= schema._GOES_ON


def test_a_start_does_not_wait_for_a_reader_for_ever(older, url, foreign, monkeypatch, make_instance):
    """Somebody's transaction that reads a table which must be made anew: the start is given up with a message, and
    nobody was held up; later it is done."""
    foreign.execute("UPDATE eventjobs.projections SET version = 0 WHERE name = 'listing'")
    monkeypatch.setattr(schema, "BOUNDED", bounded(lock=200, statement=0, idle=0))
    with foreign.transaction():
        foreign.execute("SELECT count(*) FROM eventjobs.projection_listing")
        with pytest.raises(TryAgain, match="lock timeout"):
            open_engine(url, READ_MODELS)
    make_instance().enqueue(b.enqueue(b.an_id(9_001)))
