"""The PostgreSQL that tests run on: databases apart, and what is committed outlives a crash of the server."""

from __future__ import annotations

import psycopg
import pytest


def test_each_database_is_its_own(postgres_server):
    """A new database has nothing of another, unless it is made as its copy."""
    first = postgres_server.new_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE numbers (n int)")
    copy, other = postgres_server.new_database(first), postgres_server.new_database()
    found = []
    for url in (copy, other):
        with psycopg.connect(url) as connection:
            found.append(connection.execute("SELECT to_regclass('numbers')").fetchone()[0])
    for url in (first, copy, other):
        postgres_server.drop_database(url)
    assert found == ["numbers", None]


def test_a_crash_loses_nothing_that_was_committed(server):
    """After a stop without any notice the server recovers what was committed, and nothing else."""
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE numbers (n int)")
        connection.execute("INSERT INTO numbers VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO numbers VALUES (2)")
        server.stop(crash=True)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    server.start()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT n FROM numbers").fetchall() == [(1,)]
