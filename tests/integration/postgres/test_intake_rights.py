"""Who may put requests into the intake, what a producer's session has to do with it, and stores of other versions."""

from __future__ import annotations

import hashlib
import json
import os
from itertools import chain

import psycopg
import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.job import State
from eventjobs.store.postgres import schema
from eventjobs.testing import builders as b

VERSION = 2
FUNCTIONS_DIGEST = "25df9d6d01484278cd4c56ea97c65c2b58f939f77309b75195aebec6f82b5437"


def ask(connection, key=None) -> str:
    """Ask for a job; the id it is to have."""
    return str(connection.execute("SELECT eventjobs.enqueue('k', idempotency_key => %s)", (key,)).fetchone()[0])


@pytest.fixture
def role(instance, foreign):
    """A role of the server that may enqueue in this store, and nothing else."""
    name = f"eventjobs_test_producer_{os.getpid()}"
    foreign.execute(f"CREATE ROLE {name} LOGIN")
    foreign.execute(f"GRANT USAGE ON SCHEMA eventjobs TO {name}")
    foreign.execute(f"GRANT EXECUTE ON FUNCTION eventjobs.enqueue, eventjobs.enqueue_request TO {name}")
    yield name
    foreign.execute(f"DROP OWNED BY {name} CASCADE")
    foreign.execute(f"DROP ROLE {name}")


def test_a_producers_role_may_enqueue_and_do_nothing_else(instance, role, connect, foreign, sound):
    """It reads no table, calls nothing that has an effect, and its name is in the log."""
    shop = connect(user=role, autocommit=True)
    told = str(shop.execute("SELECT eventjobs.enqueue('k')").fetchone()[0])
    shop.execute('SELECT eventjobs.enqueue_request(\'{"kind": "k"}\')')
    tables = foreign.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'eventjobs'").fetchall()
    for (table,) in tables:
        for statement in (f"SELECT * FROM eventjobs.{table}", f"DELETE FROM eventjobs.{table}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                shop.execute(statement)
    calls = [
        "eventjobs.ask(gen_random_uuid(), NULL, '{}', NULL, 'somebody')",
        "eventjobs.held_key('')",
        "eventjobs.lock_intake('{1}')",
        "eventjobs.candidates(NULL, NULL, 9, 9, '{}', '{}', '{}', '{}', '{}')",
    ]
    for call in calls:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.execute(f"SELECT * FROM {call}")
    instance.take_in()
    records = sound(instance.engine)
    assert len(records) == 2 and records[0].job_id == told
    assert {record.actor for record in records} == {Actor(ActorType.PRODUCER, role)}


def test_a_role_that_was_granted_nothing_may_not_enqueue(instance, connect, role, foreign):
    """Not even with the schema's use: the functions are nobody's by default."""
    foreign.execute(f"REVOKE EXECUTE ON FUNCTION eventjobs.enqueue, eventjobs.enqueue_request FROM {role}")
    shop = connect(user=role, autocommit=True)
    for call in ("enqueue('k')", 'enqueue_request(\'{"kind": "k"}\')'):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.execute(f"SELECT eventjobs.{call}")


def test_a_producers_own_names_do_not_reach_into_the_function(instance, role, connect, foreign, sound):
    """Functions, operators and tables that it puts before the system's, also temporary ones, are not looked at."""
    database = foreign.info.dbname
    foreign.execute(f'GRANT CREATE, TEMPORARY ON DATABASE "{database}" TO {role}')
    shop = connect(user=role, autocommit=True)
    shop.execute("CREATE SCHEMA trap")
    evil = "RETURNS {} LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'caught as %', current_user; END $$"
    for signature, returns in (
        ("sha256(bytea)", "bytea"),
        ("gen_random_uuid()", "uuid"),
        ("octet_length(text)", "integer"),
        ("lower(text)", "text"),
        ("session_user()", "text"),
    ):
        name = signature.replace("session_user", "trapped_user")
        shop.execute(f"CREATE FUNCTION trap.{name} {evil.format(returns)}")
    shop.execute(f"CREATE FUNCTION trap.joins(text, text) {evil.format('text')}")
    shop.execute("CREATE OPERATOR trap.|| (FUNCTION = trap.joins, LEFTARG = text, RIGHTARG = text)")
    shop.execute("CREATE TEMPORARY TABLE intake (number int)")
    shop.execute("SET search_path = trap, pg_temp, pg_catalog")
    shop.execute("SELECT eventjobs.enqueue('k', '{\"a\": 1}', idempotency_key => 'key')")
    shop.execute("SELECT eventjobs.enqueue_request('{\"kind\": \"k\"}', '1')")
    shop.execute("RESET search_path")
    instance.take_in()
    assert len(sound(instance.engine)) == 2
    shop.execute("DROP SCHEMA trap CASCADE")


def test_no_state_of_the_session_is_needed_or_left(instance, url, sound):
    """Each statement may come over another connection of a pooler that shares them out by transaction: nothing is
    prepared, set, locked or made for a session."""
    found = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE '%%transaction%%'"
    with psycopg.connect(url, prepare_threshold=None) as connection:
        ask(connection)  # loads the language, which brings settings along
        connection.rollback()
        before = connection.execute(found).fetchall()
        ask(connection, key="k")
        connection.commit()
        assert connection.execute(found).fetchall() == before
        for kept in ("pg_prepared_statements", "pg_listening_channels()"):
            assert connection.execute(f"SELECT count(*) FROM {kept}").fetchone() == (0,)
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.execute(locks).fetchone() == (0,)
    assert len(instance.take_in()) == 1


HOSTILE = {
    "standard_conforming_strings": "off",
    "extra_float_digits": "-15",
    "IntervalStyle": "sql_standard",
    "DateStyle": "SQL, DMY",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "search_path": "nowhere",
    "backslash_quote": "off",
    "transform_null_equals": "on",
    "lc_messages": "C",
}
ALL_OF_IT = """
SELECT eventjobs.enqueue('k', %(payload)s, run_at => '2031-02-03 04:05:06.789012+01', retry_policy => %(policy)s,
    idempotency_key => %(key)s)
"""
"""Arguments are parameters: how a session writes its own literals is its own matter."""


def test_what_a_session_sets_changes_nothing(instance, url, foreign):
    """How texts, times, numbers and bytes are written, and where names are looked for: the same requests come of it,
    and the same is refused."""

    def requests(settings, key) -> list[tuple]:
        with psycopg.connect(url, autocommit=True) as shop:
            for name, value in settings.items():
                shop.execute(f"SET {name} = '{value}'")
            said = r'{"a": "\u00e9 \" \\ [{", "n": 1.10}'
            policy = '{"type": "linear", "base": 0.1234567890123}'
            shop.execute(ALL_OF_IT, {"payload": said, "policy": policy, "key": key + "\\d"})
            job = {"kind": "k", "run_at": "2031-02-03T04:05:06.5+05:45", "priority": 7}
            delayed = {"kind": "k", "delay_seconds": 0.1234567890123}
            for request in (job, delayed):
                shop.execute("SELECT eventjobs.enqueue_request(%s, %s)", (json.dumps(request), said))
            for wrong in (r'"\ud800"', "[" * 200 + "]" * 200):
                with pytest.raises(psycopg.errors.InvalidParameterValue, match="invalid_request: payload"):
                    shop.execute("SELECT eventjobs.enqueue('k', %s)", (wrong,))
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="invalid_request: idempotency_key"):
                shop.execute("SELECT eventjobs.enqueue('k', idempotency_key => %s)", ("a\u0085",))
        found = foreign.execute("SELECT request - 'idempotency_key', payload FROM eventjobs.intake ORDER BY number")
        rows = found.fetchall()
        foreign.execute("DELETE FROM eventjobs.intake")
        return rows

    plain = requests({}, "one")
    assert len(plain) == 3 and requests(HOSTILE, "two") == plain


def test_an_older_store_gets_an_intake_and_older_coordinators_go_on(make_instance, url, foreign, monkeypatch, sound):
    """A rolling upgrade: the new program adds what it needs to a store of version 1, beside an old one that writes."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", 1)
        patch.setattr(schema.intake_schema, "FUNCTIONS", "SELECT 1")
        old = make_instance()
    assert foreign.execute("SELECT to_regclass('eventjobs.intake')").fetchone() == (None,)
    old.enqueue(b.enqueue())
    new = make_instance()
    with psycopg.connect(url) as producer:
        told = ask(producer, key="k")
    old.enqueue(b.enqueue(b.an_id(2)))
    assert [each.asked.job_id for each in new.take_in()] == [told]
    assert len(old.lease(5)) == 3
    assert [record.job_id for record in sound(new.engine)][:3] == [b.JOB_ID, b.an_id(2), told]
    assert foreign.execute("SELECT number FROM eventjobs.meta WHERE name = 'oldest_program'").fetchone() == (1,)


def test_the_functions_change_only_with_the_schema():
    """They are made where a store is brought up to a version: whoever changes one of them, or a limit or retry policy
    that they check, raises the version, or those that are there would go on checking the old."""
    assert schema.SCHEMA_VERSION == VERSION
    assert hashlib.sha256(schema.intake_schema.FUNCTIONS.encode()).hexdigest() == FUNCTIONS_DIGEST


def test_what_waits_outlives_projections_made_anew(make_instance, producer, sound):
    """The intake is no projection: folding everything anew leaves it alone."""
    told = ask(producer, key="k")
    producer.commit()
    again = make_instance()
    again.enqueue(b.enqueue())
    with psycopg.connect(producer.info.dsn) as foreign:
        foreign.execute("UPDATE eventjobs.projections SET version = 0")
    newer = make_instance()
    assert [each.asked.job_id for each in newer.take_in()] == [told]
    assert len(sound(newer.engine)) == 2
    with newer.engine.read() as reader:
        assert reader.job(told).state is State.QUEUED
    assert list(chain(*newer.asked())) == []
