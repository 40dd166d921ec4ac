"""Connections to the database: how they are made, what their errors mean, and some of them for readers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg.conninfo import conninfo_to_dict

from eventjobs.store.contract import Away, Corrupt, StorageFull, StoreError, TryAgain
from eventjobs.store.postgres import arrays

CONNECT_SECONDS = 5
SILENCE_SECONDS = 10
"""A connection on which nothing sent is acknowledged for so long is given up."""
READERS_MAX = 8
READER_WAIT_SECONDS = 5.0

DEFAULTS = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": SILENCE_SECONDS * 1_000,
    "keepalives_idle": SILENCE_SECONDS,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "application_name": "eventjobs",
    "client_encoding": "utf8",
    "target_session_attrs": "read-write",
}
"""Used where the URL says nothing else. Among several hosts the one that takes writes is found, as after a failover."""

LOCK_NOT_AVAILABLE = "55P03"
BROKEN_OFF = {"26000", "40001", "40P01", LOCK_NOT_AVAILABLE, "57014", "53200", "53400", "25P03", "25P04"}
"""A prepared statement is gone, serialization, deadlock, lock not available, canceled, out of memory, a limit of the
server, idle too long."""
FULL = {"53100"}
GONE = {"25006", "53300", "57P01", "57P02", "57P03", "57P04", "57P05"}
"""Read-only (no longer the primary), too many connections, shut down, crashed, starting, database dropped, idle."""

DAMAGED = {"XX001", "XX002"}

Statement = tuple[str, Sequence[object]]


def connect(url: str) -> psycopg.Connection:
    """A connection that begins no transactions by itself. Raises Away, or StoreError for a URL that is none."""
    try:
        settings = DEFAULTS | conninfo_to_dict(url)
        connection = psycopg.connect(**settings, autocommit=True)
        if is_pooled(connection):
            connection.prepare_threshold = None
    except psycopg.ProgrammingError as error:
        raise StoreError(f"this is no address of a PostgreSQL database: {_line(error)}") from error
    except psycopg.Error as error:
        raise Away(f"the database cannot be reached: {_line(error)}") from error
    arrays.register(connection)
    return connection


def is_pooled(connection: psycopg.Connection) -> bool:
    """Whether a pooler stands between: it gives its clients numbers of its own. Behind it one transaction may run on
    another server connection than the one before, where no statement is prepared and nobody listens."""
    ((number,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return number != connection.info.backend_pid


def database_at(url: str) -> str:
    """Which database a URL means, without what may be secret in it."""
    parts = conninfo_to_dict(url)
    hosts, ports = str(parts.get("host", "localhost")).split(","), str(parts.get("port", "5432")).split(",")
    places = [f"{host}:{ports[min(number, len(ports) - 1)]}" for number, host in enumerate(hosts)]
    return f"database {parts.get('dbname', '')} at {','.join(places)}"


def meaning(error: psycopg.Error) -> StoreError:
    """An error of the database as one of the contract."""
    code = error.sqlstate
    if code in BROKEN_OFF:
        return TryAgain(f"the database broke off a transaction: {_line(error)}")
    if code in DAMAGED:
        return Corrupt(_line(error))
    if code in FULL:
        return StorageFull(f"the database's disk is full: {_line(error)}")
    if code in GONE or (code or "08").startswith("08"):
        return Away(f"the database is away: {_line(error)}")
    return StoreError(f"the database refused a statement: {_line(error)}")


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


class Session:
    """One connection, made anew when it is needed and the last one broke."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None

    @property
    def connection(self) -> psycopg.Connection:
        """The connection. Raises Away."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url)
        return self._connection

    @property
    def alive(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and not self._connection.closed and not self._connection.broken

    def run(self, statements: Sequence[Statement]) -> list[list[tuple]]:
        """Run the statements in one round trip; the rows of each. Raises psycopg.Error, Away."""
        connection = self.connection
        try:
            if len(statements) == 1:
                return [_rows(connection.execute(*statements[0], binary=True))]
            with connection.pipeline():
                cursors = [connection.execute(*statement, binary=True) for statement in statements]
            return [_rows(cursor) for cursor in cursors]
        except psycopg.errors.InvalidSqlStatementName:
            self.drop()  # both ends disagree on what is prepared; a new connection has nothing prepared
            raise

    def begin(self, statements: Sequence[Statement]) -> list[list[tuple]]:
        """Run statements that begin a transaction; once more on a new connection if this one was closed from the other
        side while it lay idle. Raises psycopg.Error, Away."""
        try:
            return self.run(statements)
        except psycopg.Error:
            if self.alive:
                raise
            return self.run(statements)

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple]:
        """The rows of a question. Raises TryAgain, Away, StorageFull or StoreError."""
        try:
            return self.run([(query, parameters)])[0]
        except psycopg.Error as error:
            raise meaning(error) from error

    def write(self, statements: Sequence[Statement]) -> None:
        """Run statements in one round trip. Raises what `fetch` raises."""
        try:
            self.run(statements)
        except psycopg.Error as error:
            raise meaning(error) from error

    def roll_back(self) -> None:
        """End the open transaction without effect; a connection on which that fails is dropped."""
        if not self.alive:
            return self.drop()
        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self.drop()

    def drop(self) -> None:
        """Close the connection; the server ends what was open on it."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _rows(cursor: psycopg.Cursor) -> list[tuple]:
    return cursor.fetchall() if cursor.description is not None else []


class Sessions:
    """Sessions that threads borrow, at most READERS_MAX at a time; the one used last is lent first."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: deque[Session] = deque()
        self._turns = threading.BoundedSemaphore(READERS_MAX)
        self._closed = False

    @contextmanager
    def borrowed(self) -> Iterator[Session]:
        """A session, given back afterwards without an open transaction. Raises Away when all are in use for long."""
        if not self._turns.acquire(timeout=READER_WAIT_SECONDS):
            raise Away(f"all {READERS_MAX} connections for reading are in use")
        try:
            session = self._lent()
            try:
                yield session
            finally:
                session.roll_back()
                self._give_back(session)
        finally:
            self._turns.release()

    def _lent(self) -> Session:
        try:
            return self._idle.pop()
        except IndexError:  # looked at first, the last one could be gone by then: other threads borrow too
            return Session(self._url)

    def _give_back(self, session: Session) -> None:
        if self._closed:
            session.drop()
        else:
            self._idle.append(session)

    def close(self) -> None:
        """Close what is idle now, and the others when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().drop()
