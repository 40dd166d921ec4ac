"""Making a store in a database of a log that was written elsewhere: in one transaction, so as a whole or not at all.

Until that ends nobody sees any of it, and a coordinator that is started on the database waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import psycopg

from eventjobs.domain.events import JobLeased
from eventjobs.domain.projection import Projection
from eventjobs.store.codec import decode_record
from eventjobs.store.contract import Head, OutcomeUnknown, StoreError
from eventjobs.store.indexes import INDEXES, text_digest
from eventjobs.store.ingest import Written
from eventjobs.store.keys import KeyCodec, uuid_bytes
from eventjobs.store.postgres.arrays import Bytes, Uuids
from eventjobs.store.postgres.connection import Session, database_at, meaning
from eventjobs.store.postgres.engine import NEW_HEAD
from eventjobs.store.postgres.fitness import refuse_unfit
from eventjobs.store.postgres.loading import REQUESTS, Loaded, sound_job
from eventjobs.store.postgres.reader import StoredHead
from eventjobs.store.postgres.rebuild import bring_up_to_date, kept_as_rows
from eventjobs.store.postgres.schema import migrate, refuse_newer
from eventjobs.store.postgres.settings import BEGIN, PATIENT, SETTINGS
from eventjobs.store.postgres.transaction import PostgresTransaction

JOBS = "SELECT value FROM eventjobs.jobs WHERE id = ANY (%s)"


class Filling:
    """A store that is being made in a database that has none; a context manager that leaves nothing of it there if it
    is not finished. Raises StoreError, Away among them, in whatever it does."""

    def __init__(self, url: str, read_models: Sequence[Projection], in_use: Callable[[str], StoreError]) -> None:
        """Raises what `in_use` makes of a text when there is a store already."""
        projections = (*INDEXES, *read_models)
        self._codecs = {table: KeyCodec(table) for each in projections for table in each.tables}
        self._projections = kept_as_rows(projections)
        self._head = StoredHead.of_rows([])
        self._session = Session(url)
        try:
            with self._errors():
                refuse_unfit(self._session.connection)
                self._session.run([(BEGIN, ()), (SETTINGS, ()), (PATIENT, ())])
                if refuse_newer(self._session.connection) is not None:
                    raise in_use(f"{database_at(url)} has a store already; one is only made where there is none")
                self._session.connection.execute("SET LOCAL client_min_messages = warning")
                migrate(self._session.connection)
                bring_up_to_date(self._session, self._codecs, projections)
        except BaseException:
            self._session.drop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.drop()

    def take(self, entries: Iterable[Written]) -> Head:
        """Append some thousand records at the most, with their contents; the head after the last."""
        entries = list(entries)
        with self._errors():
            transaction = PostgresTransaction(
                self._session, self._codecs, self._projections, self._loaded(entries), own_clock=False
            )
            for entry in entries:
                transaction.append_text(entry.text, entry.content)
            transaction.write()
        self._head = transaction.stored_head()
        return transaction.head()

    def _loaded(self, entries: Sequence[Written]) -> Loaded:
        """The jobs and the lease requests that the records are about, in one question."""
        records = [decode_record(entry.text) for entry in entries]
        job_ids = {record.job_id for record in records}
        events = (record.event for record in records if type(record.event) is JobLeased)
        digests = {text_digest(event.worker, event.request_id) for event in events if event.request_id is not None}
        keys = Uuids([uuid_bytes(job_id) for job_id in job_ids])
        values, requests = self._session.run([(JOBS, (keys,)), (REQUESTS, (Bytes(list(digests)),))])
        jobs = {job.id: job for job in (sound_job(value) for (value,) in values)}
        return Loaded(
            self._head,
            clock=0,
            generation=0,
            jobs=dict.fromkeys(job_ids) | jobs,
            requests=dict.fromkeys(digests) | {digest: (position, time) for digest, position, time in requests},
        )

    def finish(self) -> Head:
        """Nothing follows: let the store be there, on disk. Gives its head."""
        head = self._head
        size = head.frontier.size
        with self._errors():
            if size:
                self._session.run([(NEW_HEAD, (size, head.last_time, head.encode()))])
            try:
                self._session.run([("COMMIT", ())])
            except psycopg.Error as error:
                if self._session.alive:
                    raise
                raise OutcomeUnknown(f"the connection broke during the commit; verify tells: {error}") from error
        return Head(size, head.frontier.root())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise meaning(error) from error
