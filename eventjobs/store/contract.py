"""The contract every engine keeps. The coordinator knows engines by these names alone.

One writer at a time appends; a commit makes everything a transaction did visible and durable, or nothing. Readers
see a consistent state and never wait for the writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import Content
from eventjobs.domain.decide import KeyHolder
from eventjobs.domain.events import Event, Record
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.projection import Rows

DUE_ROWS_MAX = 1_000
"""Jobs looked at to tell which lanes come due at one time: it is asked on the event loop."""


class StoreError(Exception):
    """A store that cannot be used as asked. The text says what to do."""


class StorageFull(StoreError):
    """There was no room; nothing of the transaction is in the store, and reading goes on."""


class OutcomeUnknown(StoreError):
    """A commit failed in a way that may or may not have reached the disk. The engine must not be used again."""


class Corrupt(StoreError):
    """A stored value does not match its checksum or its form."""


class AlreadyOpen(StoreError):
    """Another coordinator holds the store."""


@frozen
class Head:
    """The log's size in records and the root of the Merkle tree over them (RFC 6962, SHA-256, 32 bytes)."""

    size: int
    root: bytes


@frozen
class Grant:
    """What a remembered lease request was given: a job and its token."""

    job_id: str
    token: int


class Reader(Rows, Protocol):
    """One consistent state of the store."""

    def head(self) -> Head: ...

    def job(self, job_id: str) -> Job | None:
        """The job with this id (canonical lower-case UUID text)."""

    def content(self, ref: ContentRef) -> bytes:
        """The text of a content. Raises Corrupt when it is damaged or missing."""

    def record(self, position: int) -> Record | None:
        """The record at a position (from 1)."""

    def records(self, after: int, limit: int) -> list[Record]:
        """Up to `limit` records with positions above `after`, in order."""

    def record_text(self, position: int) -> bytes | None:
        """The bytes of the record at a position, as they were written: what the tree's leaf hash is made of."""

    def root(self, size: int) -> bytes:
        """The root of the tree over the first `size` records, at most as many as there are."""

    def inclusion_proof(self, position: int, size: int) -> list[bytes]:
        """What shows that the record at a position is among the first `size`; see proofs.py. O(log size) hashes."""

    def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """What shows that the first `size` records begin with the first `old_size`; see proofs.py."""

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]] | None] | None:
        """The earliest time above `after` at which waiting jobs come due, and their (queue, kind) pairs; None in place
        of the pairs when more than DUE_ROWS_MAX jobs come due then.

        Asked with an `after` at or above the newest record's time: jobs that were due when they began to wait do not
        come due any more and may be left out.
        """

    def next_expiry(self) -> int | None:
        """The earliest time at which a lease runs out."""


class Transaction(Reader, Protocol):
    """The one write transaction. Reads see its own appends."""

    last_time: int
    """Time of the newest record, 0 for an empty log. Appends never carry an earlier one."""

    def key_holder(self, idempotency_key: str) -> KeyHolder | None:
        """The job enqueued under the key, with its payload."""

    def candidates(self, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int) -> list[Job]:
        """Waiting jobs that are due, best first: priority (high first), then run_at, then position.

        None means any. Costs O((limit + lanes asked for) * log n), where a lane is a queue and kind with waiting jobs.
        """

    def expired(self, now: int, limit: int) -> list[Job]:
        """Running jobs whose lease ran out at or before `now`, oldest expiry first."""

    def grants(self, worker: str, request_id: str, now: int) -> list[Grant] | None:
        """What the worker's lease request was given, None when it is not remembered."""

    def append(
        self, before: Job | None, event: Event, job_id: str, now: int, actor: Actor, content: Content | None
    ) -> Job:
        """Append the event to the log and bring every projection up to it; returns the job after it.

        `before` is the job as read in this transaction, None for a new one. `now` must not be below `last_time`.
        """


class Engine(Protocol):
    """A store, open. All writing happens on one thread, which calls begin, commit and abort in turn."""

    def begin(self) -> Transaction: ...

    def commit(self) -> None:
        """Make the open transaction durable (fsync), then visible. Raises StorageFull or OutcomeUnknown."""

    def abort(self) -> None:
        """Drop the open transaction."""

    def read(self) -> AbstractContextManager[Reader]:
        """A consistent view for a short read, never held across an await."""

    def room_for_new_work(self, size: int = 0) -> bool:
        """False when new jobs of `size` bytes would take of what is kept for finishing the work that is already in.

        Asked on the writer thread while a transaction is open: `size` is that of all its new jobs so far, contents and
        all.
        """

    def maintain(self) -> None:
        """Housekeeping without effect on the content; called on a timer from the writer thread."""

    def close(self) -> None: ...
