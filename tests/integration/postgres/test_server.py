"""The PostgreSQL that tests run on: databases apart, and what is committed outlives a crash of the server."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psycopg
import pytest

from eventjobs.testing.postgres import SERVER_VARIABLE
from eventjobs.testing.processes import ProgramProcess


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


def test_a_command_that_is_asked_to_end_leaves_no_server(tmp_path):
    """SIGTERM ends the command first; then its server is gone, and all that it wrote."""
    program = "import time; print('{}', flush=True); time.sleep(600)"
    arguments = [sys.executable, "-m", "eventjobs.testing.with_postgres", sys.executable, "-c", program]
    with ProgramProcess(arguments, tmp_path / "log", {SERVER_VARIABLE: ""}) as process:
        process.wait_for_text("postgresql://")
        url = process.text().strip()
        with psycopg.connect(url) as connection:
            (directory,) = connection.execute("SHOW data_directory").fetchone()
        assert Path(directory).exists()
        assert process.terminate() == 128 + signal.SIGTERM
    assert not Path(directory).exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
