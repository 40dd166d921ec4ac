"""A store in a database seen from outside, for programs that look at it and change nothing, beside its coordinators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from attrs import frozen

from eventjobs.domain.content import Content
from eventjobs.domain.projection import Projection, Table
from eventjobs.store.codec import decode_content, unseal
from eventjobs.store.contract import StoreError
from eventjobs.store.keys import KeyCodec
from eventjobs.store.postgres.connection import Session, database_at, meaning
from eventjobs.store.postgres.reader import HEAD, PostgresReader, StoredHead, position_key
from eventjobs.store.postgres.schema import refuse_newer
from eventjobs.store.postgres.settings import BEGIN_READING, PATIENT

REFUSALS = (
    "SELECT number, id::text, code, reason, job_id::text, request::text, payload, actor, asked_at, decided_at "
    "FROM eventjobs.not_enqueued ORDER BY number DESC LIMIT %s"
)


@frozen
class Refusal:
    """A request of the intake that did not become a job under its id. `request` are its members but for the payload,
    as JSON; `job_id` is the job in its place. Times in microseconds."""

    number: int
    id: str
    code: str
    reason: str
    job_id: str | None
    request: str
    payload: bytes | None
    actor: str
    asked_at: int
    decided_at: int


class Outside(PostgresReader):
    """See store.contract.Reader, of which it answers for the log (head, records, contents, proofs) and for the tables
    of the projections it was opened with. `session` has the transaction that it asks in."""

    def __init__(self, session: Session, codecs: dict[Table, KeyCodec], head: StoredHead) -> None:
        super().__init__(session, codecs, head)
        self.session = session

    def keeps(self, projection: Projection) -> bool:
        """Whether the coordinators keep the projection by this version of its rule."""
        query = "SELECT version, left_at FROM eventjobs.projections WHERE name = %s"
        return self._fetch(query, (projection.name,)) == [(projection.version, None)]

    def waiting(self) -> tuple[int, int | None]:
        """How many requests the intake holds, and when the oldest of them was put in. Raises StoreError where no
        coordinator has made one yet."""
        if self._fetch("SELECT to_regclass('eventjobs.intake')") == [(None,)]:
            raise StoreError("this store has no intake yet: no coordinator of this version was started on it")
        return self._fetch("SELECT count(*), min(asked_at) FROM eventjobs.intake")[0]

    def not_enqueued(self, limit: int) -> list[Refusal]:
        """The newest requests that did not become a job under the id their producer was given, oldest first."""
        return [Refusal(*row) for row in reversed(self._fetch(REFUSALS, (limit,)))]

    def content_sizes(self, after: int, last: int) -> list[tuple[int, int]]:
        """Position and size in bytes, checksum and salt included, of each content above `after`, up to `last`."""
        query = (
            "SELECT position, octet_length(value) FROM eventjobs.contents "
            "WHERE position > %s AND position <= %s ORDER BY position"
        )
        return self._fetch(query, (after, last))

    def contents_between(self, after: int, last: int) -> dict[int, Content]:
        """The contents above `after`, up to `last`, by position."""
        query = "SELECT position, value FROM eventjobs.contents WHERE position > %s AND position <= %s"
        found = self._fetch(query, (after, last))
        return {place: decode_content(unseal(position_key(place), value, "contents")) for place, value in found}


@contextmanager
def open_outside(url: str, projections: Sequence[Projection] = ()) -> Iterator[Outside]:
    """The store in a database as it stands now, and the tables of some projections. Raises StoreError where there is
    none, or a newer one; Away."""
    session = Session(url)
    try:
        session.run([(BEGIN_READING, ()), (PATIENT, ())])
        if refuse_newer(session.connection) is None:
            raise StoreError(f"{database_at(url)} has no schema eventjobs: there is no store")
        head = StoredHead.of_rows(session.fetch(HEAD))
        codecs = {table: KeyCodec(table) for each in projections for table in each.tables}
        yield Outside(session, codecs, head)
    except psycopg.Error as error:
        raise meaning(error) from error
    finally:
        session.drop()
