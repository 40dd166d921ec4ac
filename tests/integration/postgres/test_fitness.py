"""A server, a database or a schema that cannot have a store is refused before anything is made in it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StoreError
from eventjobs.store.postgres import fitness, open_engine

NOTHING_THERE = "SELECT to_regnamespace('eventjobs') IS NULL"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("130022, '13.22', 'PostgreSQL 13.22 on x86_64', 'UTF8'", "is PostgreSQL 13.22; .* PostgreSQL 14 or later"),
        ("130000, '13.0.0', 'CockroachDB CCL v25.1.0', 'UTF8'", "is CockroachDB .* PostgreSQL 14 or later"),
        ("150012, '15.12-YB-2.25.1', 'PostgreSQL 15.12-YB-2.25.1.0-b0', 'UTF8'", "is YugabyteDB"),
        ("180000, '18.0', 'PostgreSQL 18.0', 'LATIN1'", "encoding LATIN1; a store needs UTF8"),
    ],
)
def test_a_server_that_cannot_have_a_store_is_refused(url, foreign, monkeypatch, answer, said):
    """What was found and what is needed are both named, and nothing is made."""
    monkeypatch.setattr(fitness, "ABOUT", f"SELECT {answer}")
    with pytest.raises(StoreError, match=said):
        open_engine(url, READ_MODELS)
    assert foreign.execute(NOTHING_THERE).fetchone() == (True,)


def test_a_database_that_cannot_carry_all_texts_is_refused(foreign, url):
    """One whose encoding is SQL_ASCII."""
    name = f"{foreign.info.dbname}_ascii"
    made = "CREATE DATABASE {} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
    foreign.execute(sql.SQL(made).format(sql.Identifier(name)))
    try:
        other = psycopg.conninfo.make_conninfo(url, dbname=name)
        with pytest.raises(StoreError, match="encoding SQL_ASCII; a store needs UTF8"):
            open_engine(other, READ_MODELS)
        with psycopg.connect(other) as connection:
            assert connection.execute(NOTHING_THERE).fetchone() == (True,)
    finally:
        foreign.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@pytest.fixture
def role(foreign):
    """Another role of the server, which may make schemas in this database. Its name."""
    name = f"eventjobs_test_other_{os.getpid()}"
    foreign.execute(f"CREATE ROLE {name} LOGIN")
    foreign.execute(f'GRANT CREATE ON DATABASE "{foreign.info.dbname}" TO {name}')
    yield name
    foreign.execute(f"DROP OWNED BY {name} CASCADE")
    foreign.execute(f"DROP ROLE {name}")


def test_a_schema_of_somebody_else_is_not_taken_over(foreign, url, role, make_instance):
    """Neither an empty one that was made beforehand, nor a store: the message says whose it is and what to do. A role
    that is a member of the owner may use it."""
    as_role = psycopg.conninfo.make_conninfo(url, user=role)
    owner = foreign.info.user
    said = f'belongs to the role "{owner}", and this is "{role}": connect as'
    foreign.execute("CREATE SCHEMA eventjobs")
    with pytest.raises(StoreError, match=said):
        open_engine(as_role, READ_MODELS)
    foreign.execute("DROP SCHEMA eventjobs")
    make_instance()
    with pytest.raises(StoreError, match=said):
        open_engine(as_role, READ_MODELS)
    foreign.execute(f'GRANT "{owner}" TO {role}')
    open_engine(as_role, READ_MODELS).close()


DOCUMENT = Path(__file__).parents[3] / "docs" / "postgres.md"


def test_advisory_locks_can_be_taken_from_everybody_else(foreign, url, role):
    """As the page about databases says: then nobody else can hold coordinators up, and they go on."""
    as_role = psycopg.conninfo.make_conninfo(url, user=role)
    (text,) = re.findall(r"```sql\n(DO .*?)```", DOCUMENT.read_text(), re.DOTALL)
    foreign.execute(text.replace("TO jobs;", f"TO {role};"))
    stranger = f"{role}_stranger"
    foreign.execute(f"CREATE ROLE {stranger} LOGIN")
    try:
        with psycopg.connect(url, user=stranger, autocommit=True) as connection:
            for lock in ("pg_advisory_lock", "pg_try_advisory_xact_lock_shared"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT {lock}(1163283010, 1)")
        engine = open_engine(as_role, READ_MODELS)
        engine.begin()
        engine.abort()
        engine.maintain()
        assert engine.pulse().size == 0
        engine.close()
    finally:
        foreign.execute(f"DROP ROLE {stranger}")
        foreign.execute("DROP SCHEMA IF EXISTS eventjobs CASCADE")
