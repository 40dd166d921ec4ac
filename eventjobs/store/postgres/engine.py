"""The PostgreSQL engine: opening, the commit, what follows from one whose answer was lost, and housekeeping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from eventjobs.domain.projection import Projection
from eventjobs.store.contract import NOTHING, JobsHeld, Needs, OutcomeUnknown, Pulse, StoreError, TryAgain
from eventjobs.store.indexes import INDEXES
from eventjobs.store.keys import KeyCodec, uuid_bytes
from eventjobs.store.postgres.arrays import Uuids
from eventjobs.store.postgres.connection import LOCK_NOT_AVAILABLE, Session, Sessions, Statement, meaning
from eventjobs.store.postgres.fitness import refuse_unfit
from eventjobs.store.postgres.housekeeping import clear_up
from eventjobs.store.postgres.intake import ASKED_AT, Low
from eventjobs.store.postgres.listener import CHANNEL, Listener
from eventjobs.store.postgres.loading import APPEND, NO_LOWS, Loaded, Loading, Lows
from eventjobs.store.postgres.reader import HEAD, PostgresReader, StoredHead
from eventjobs.store.postgres.rebuild import bring_up_to_date, kept_as_rows
from eventjobs.store.postgres.schema import migrate
from eventjobs.store.postgres.settings import BEGIN, BEGIN_READING, NOT_FOR_LONG, OUTLASTING, PATIENT, READING, SETTINGS
from eventjobs.store.postgres.transaction import PostgresTransaction

LOOK_SECONDS = 1.0
"""How often candidates are looked for from the beginning of their lanes, at the most."""
LOOK_PART = 20
"""And not more than one part in this many of the time is spent on it."""
HELD_MAX = 10_000
"""Jobs that are remembered as locked by somebody."""

NEW_HEAD = "INSERT INTO eventjobs.heads VALUES (%s, %s, %s)"
OLD_HEAD = "DELETE FROM eventjobs.heads WHERE size = %s"
NOTIFY = f"SELECT pg_notify('{CHANNEL}', '')"
WRITTEN = "SELECT value FROM eventjobs.heads WHERE size = %s"
VIEW = [(BEGIN_READING, ()), (READING, ()), (HEAD, ())]
PULSE = f"SELECT (SELECT size FROM ({HEAD}) AS head), eventjobs.clock()"
THERE = "SELECT id FROM eventjobs.jobs WHERE id = ANY (%s)"
FREE = f"{THERE} FOR UPDATE SKIP LOCKED"


def open_engine(
    url: str, read_models: Sequence[Projection] = (), own_clock: bool = True, notify: bool = True
) -> PostgresEngine:
    """Open the store in a database, making it if it is missing, and bring it up to this program.

    `own_clock` stamps records by the database's clock; without it by the caller's, for tests and imports. `notify`
    tells the other coordinators of each commit at once; it needs connections that no pooler shares out by transaction.
    Raises StoreError, Away among them, with a text that says what to do.
    """
    return PostgresEngine(url, (*INDEXES, *read_models), own_clock, notify)


class PostgresEngine:
    """See store.contract.SharedEngine. Made by `open_engine`."""

    shared = True

    def __init__(self, url: str, projections: Sequence[Projection], own_clock: bool, notify: bool) -> None:
        self._url, self._own_clock, self._notify = url, own_clock, notify
        self._projections = kept_as_rows(projections)
        self._codecs = {table: KeyCodec(table) for each in projections for table in each.tables}
        self._session, self._readers = Session(url), Sessions(url)
        self._intake_low = Low()
        self._open: PostgresTransaction | None = None
        self._listener: Listener | None = None
        self._held: set[str] = set()
        """Jobs that somebody had locked for longer than was waited for: they are not waited for again."""
        self._lows, self._looked, self._look_seconds = Lows(), 0.0, 0.0
        try:
            self._generation = self._prepare(projections)
        except psycopg.Error as error:
            self._session.drop()
            raise meaning(error) from error
        except BaseException:
            self._session.drop()
            raise

    def _prepare(self, projections: Sequence[Projection]) -> int:
        """Make or migrate the schema, and bring projections up to date; one coordinator at a time."""
        refuse_unfit(self._session.connection)
        self._session.run([(BEGIN, ()), (PATIENT, ()), ("SET LOCAL client_min_messages = warning", ())])
        migrate(self._session.connection)
        generation = bring_up_to_date(self._session, self._codecs, projections)
        self._session.run([("COMMIT", ())])
        return generation

    # Writing --------------------------------------------------------------------------------------------------

    def begin(self, needs: Needs = NOTHING) -> PostgresTransaction:
        if self._open is not None:
            raise RuntimeError("a write transaction is open already")
        self._refuse_held(sorted(self._held.intersection(needs.jobs)))
        began = time.monotonic()
        looks = bool(needs.leases) and began >= self._looked + max(LOOK_SECONDS, LOOK_PART * self._look_seconds)
        loading = Loading(needs, NO_LOWS if looks else self._lows)
        loaded = self._load(loading)
        if looks:
            self._looked = time.monotonic()
            self._look_seconds = self._looked - began
        if loaded.generation != self._generation:
            self._session.roll_back()
            raise StoreError("another eventjobs has changed what this store keeps; restart with that version")
        self._open = PostgresTransaction(self._session, self._codecs, self._projections, loaded, self._own_clock)
        return self._open

    def _load(self, loading: Loading) -> Loaded:
        before = loading.before_lock()
        statements: list[Statement] = [(BEGIN, ()), (SETTINGS, ()), *before, *loading.under_lock()]
        try:
            return loading.loaded(self._session.begin(statements)[2:])
        except psycopg.Error as error:
            broken = not self._session.alive
            self._session.roll_back()
            if not broken and error.sqlstate == LOCK_NOT_AVAILABLE:
                self._refuse_held(loading.ids)
            if broken:  # it may have been so for long; whether the database is there, a new one will show
                raise TryAgain(f"the connection to the database broke: {error}") from error
            raise meaning(error) from error
        except BaseException:
            self._session.roll_back()
            raise

    def _refuse_held(self, job_ids: Sequence[str]) -> None:
        """Find out which of the jobs somebody has locked. Raises JobsHeld if there are any, TryAgain, Away."""
        if not job_ids:
            return
        ids = {uuid_bytes(job_id): job_id for job_id in job_ids}
        asked = (Uuids(list(ids)),)
        try:
            rows = self._session.begin([(BEGIN, ()), (SETTINGS, ()), (THERE, asked), (FREE, asked)])
        except psycopg.Error as error:
            raise meaning(error) from error
        finally:
            self._session.roll_back()
        held = {ids[each.bytes] for (each,) in set(rows[2]) - set(rows[3])}
        self._held = self._held.difference(job_ids) | held
        if held:
            raise JobsHeld(held)

    def commit(self) -> None:
        transaction = self._taken()
        if not transaction.changes_something:
            return self._session.roll_back()
        head = transaction.stored_head()
        statements = transaction.pending.statements()
        if transaction.appended:
            statements += _new_head(transaction.begun_at, head)
        if self._notify:
            statements.append((NOTIFY, ()))
        statements.append(("COMMIT", ()))
        if not self._session.alive:
            raise TryAgain("the connection to the database broke before the commit")
        try:
            self._session.run(statements)
        except psycopg.Error as error:
            if self._session.alive:
                self._session.roll_back()
                raise meaning(error) from error
            self._look_after(head, error)
        transaction.lower(self._lows)

    def _look_after(self, head: StoredHead, error: psycopg.Error) -> None:
        """The connection broke and the commit may have been done: look. Under the append lock, which the other end of
        the broken connection holds until it is through. Raises TryAgain if it was not done, OutcomeUnknown if the
        database does not say."""
        self._session.drop()
        try:
            rows = self._session.run([(BEGIN, ()), (OUTLASTING, ()), (APPEND, ()), (WRITTEN, (head.frontier.size,))])
            self._session.roll_back()
            done = rows[3] == [(head.encode(),)] or self._holds(head)
        except (psycopg.Error, StoreError) as again:
            self._session.drop()
            raise OutcomeUnknown(
                f"the connection broke during a commit, and the database does not say: {again}"
            ) from error
        if not done:
            raise TryAgain(f"the connection broke before the commit was done: {error}") from error

    def _holds(self, head: StoredHead) -> bool:
        """Whether the log begins with that of a head that is not the newest any more."""
        with self.read() as reader:
            size = head.frontier.size
            return reader.head().size > size and reader.root(size) == head.frontier.root()

    def abort(self) -> None:
        self._taken()
        self._session.roll_back()

    def _taken(self) -> PostgresTransaction:
        if self._open is None:
            raise RuntimeError("no write transaction is open")
        taken, self._open = self._open, None
        return taken

    # Reading --------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        with self._readers.borrowed() as session:
            rows = self._viewed(session, VIEW)
            yield PostgresReader(session, self._codecs, StoredHead.of_rows(rows), self._intake_low)

    def pulse(self) -> Pulse:
        with self._readers.borrowed() as session:
            ((size, clock),) = self._viewed(session, [*VIEW[:2], (PULSE, ())])
            try:
                return Pulse(size or 0, clock, self._oldest_asked(session))
            except TryAgain:  # somebody has the intake's table locked, which is no reason not to know the rest
                return Pulse(size or 0, clock, intake_known=False)

    def _oldest_asked(self, session: Session) -> int | None:
        """Since when the oldest request of the intake waits. Raises TryAgain, Away or StoreError."""
        after = self._intake_low.number
        session.write([(NOT_FOR_LONG, ())])
        found = session.fetch(ASKED_AT, (after,))
        self._intake_low.passed(after, bool(found))
        return found[0][0] if found else None

    def _viewed(self, session: Session, statements: Sequence[Statement]) -> list[tuple]:
        """The last one's rows of the statements that begin to read. Raises TryAgain, Away or StoreError."""
        try:
            return session.begin(statements)[-1]
        except psycopg.Error as error:
            raise meaning(error) from error

    def watch(self, moved: Callable[[], None]) -> None:
        if self._notify:
            self._listener = Listener(self._url, moved)

    # Housekeeping ---------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """A database has backups of its own."""

    def room_for_new_work(self, size: int = 0) -> bool:
        """The database says when it is full."""
        return True

    def maintain(self) -> None:
        """One coordinator at a time clears up."""
        if len(self._held) > HELD_MAX:
            self._held.clear()
        with self._readers.borrowed() as session:
            try:
                clear_up(session)
            except psycopg.Error as error:
                raise meaning(error) from error

    def close(self) -> None:
        if self._open is not None:
            self.abort()
        if self._listener is not None:
            self._listener.stop()
        self._session.drop()
        self._readers.close()


def _new_head(begun_at: int, head: StoredHead) -> list[Statement]:
    old: list[Statement] = [(OLD_HEAD, (begun_at,))] if begun_at else []
    return [*old, (NEW_HEAD, (head.frontier.size, head.last_time, head.encode()))]
