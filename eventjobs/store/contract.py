"""The contract every engine keeps. The coordinator knows engines by these names alone.

One writer at a time appends; a commit makes everything a transaction did visible and durable, or nothing. Readers
see a consistent state and never wait for the writer.

An engine is either this process's own, or shared: a database that other coordinators write too, behind a network. A
shared one may be away for a while and come back, breaks off a transaction now and then, and tells the time for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from attrs import frozen

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import Content
from eventjobs.domain.decide import KeyHolder
from eventjobs.domain.events import Event, Record
from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.domain.job import ContentRef, Job, State
from eventjobs.domain.projection import Rows

DUE_ROWS_MAX = 1_000
"""Jobs looked at to tell which lanes come due at one time: it is asked on the event loop."""


HOLDING, BARE, KEYED = "holding", "bare", "keyed"
"""What is left of a finished job: it has contents; it has none; its idempotency key, whether it is retired or not."""


class StoreError(Exception):
    """A store that cannot be used as asked. The text says what to do."""


class StorageFull(StoreError):
    """There was no room; nothing of the transaction is in the store, and reading goes on."""


class OutcomeUnknown(StoreError):
    """A commit failed in a way that may or may not have reached the disk. An engine that is not shared must not be used
    again; a shared one goes on with a new connection."""


class Failed(StoreError):
    """A commit failed before, and of the store as it was opened nothing can be read any more. Open it again."""


class TryAgain(StoreError):
    """The transaction was broken off for the sake of others: a deadlock, a lock or a statement that took too long.
    Nothing of it was done, and the same may succeed now."""


class JobsHeld(TryAgain):
    """Another session of the database has needed jobs locked, for longer than is waited for; `ids` are theirs."""

    def __init__(self, ids: Iterable[str]) -> None:
        super().__init__("another session of the database has the job locked")
        self.ids = frozenset(ids)


class Away(StoreError):
    """A shared store cannot be reached just now. Nothing was done; the engine connects again by itself."""


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


@frozen
class EndingLane:
    """Finished jobs that are alike to retention: what is left of them, their state, queue and kind."""

    stage: str
    state: State
    queue: str
    kind: str


@frozen
class LeaseNeed:
    """Candidates that will be asked for, and the lease request whose grants will be looked up (None: of none)."""

    queues: Sequence[str] | None
    kinds: Sequence[str] | None
    limit: int
    worker: str
    request_id: str | None


@frozen
class Needs:
    """What a transaction will be asked for, said beforehand: jobs by id, retired or not, jobs among them whose errors
    will be asked for, holders of idempotency keys, candidates in the order in which they will be asked for, up to so
    many jobs whose lease ran out, and requests of the intake: their numbers and the ids their jobs are to have."""

    jobs: tuple[str, ...] = ()
    errors_of: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    leases: tuple[LeaseNeed, ...] = ()
    expired: int = 0
    asked: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of_all(cls, needs: Iterable[Needs]) -> Needs:
        """The needs of works that are done one after another in one transaction."""
        needs = tuple(needs)
        if len(needs) == 1:
            return needs[0]
        return cls(
            jobs=tuple(job for need in needs for job in need.jobs),
            errors_of=tuple(job for need in needs for job in need.errors_of),
            keys=tuple(key for need in needs for key in need.keys),
            leases=tuple(lease for need in needs for lease in need.leases),
            expired=sum(need.expired for need in needs),
            asked=tuple(asked for need in needs for asked in need.asked),
        )


NOTHING = Needs()


@frozen
class Pulse:
    """A shared store at one moment: the size of its log, the time by its clock (microseconds), and since when the
    oldest request of its intake waits, None when none does; unless the intake could not be asked just now."""

    size: int
    time: int
    asked_at: int | None = None
    intake_known: bool = True


class Reader(Rows, Protocol):
    """One consistent state of the store."""

    def head(self) -> Head: ...

    def job(self, job_id: str) -> Job | None:
        """The job with this id (canonical lower-case UUID text); None as well for one that is retired."""

    def content(self, ref: ContentRef) -> bytes:
        """The text of a content. Raises Corrupt when it is damaged or missing."""

    def contents(self, refs: Sequence[ContentRef]) -> dict[int, bytes]:
        """The texts of several contents by position, read together. Raises Corrupt when one is damaged or missing."""

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

    def ahead_of(
        self, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
    ) -> dict[tuple[str, str], int]:
        """How many due jobs come before a waiting one in the order of leasing, by (queue, kind).

        Looked at are the pairs that are `wanted`, one after another; no more than `limit` jobs are counted.
        """

    def ending_lanes(self, stage: str) -> Iterator[tuple[EndingLane, int]]:
        """Every lane of the stage that has jobs, with the earliest time at which one of them finished."""

    def ended(self, lane: EndingLane, until: int, limit: int) -> list[str]:
        """Ids of up to `limit` jobs of the lane that finished at or before `until`, oldest end first."""


class Transaction(Reader, Protocol):
    """The one write transaction. Reads see its own appends."""

    last_time: int
    """Time of the newest record, 0 for an empty log. Appends never carry an earlier one."""

    def now(self, wanted: int) -> int:
        """The time for what is decided in this transaction, `last_time` at least: what the caller's clock says
        (`wanted`), or with a shared store what the store's own clock says, for all coordinators alike."""

    def key_holder(self, idempotency_key: str) -> KeyHolder | None:
        """The job enqueued under the key, retired or not, with its payload (None when it was erased)."""

    def candidates(self, queues: Sequence[str] | None, kinds: Sequence[str] | None, now: int, limit: int) -> list[Job]:
        """Waiting jobs that are due, best first: priority (high first), then run_at, then position.

        None means any. Costs O((limit + lanes asked for) * log n), where a lane is a queue and kind with waiting jobs.
        """

    def expired(self, now: int, limit: int) -> list[Job]:
        """Running jobs whose lease ran out at or before `now`, oldest expiry first."""

    def grants(self, worker: str, request_id: str, now: int) -> list[Grant] | None:
        """What the worker's lease request was given, None when it is not remembered."""

    def kept(self, job_id: str) -> Job | None:
        """The job, also when it is retired and its idempotency key stands for it."""

    def errors_of(self, job_id: str) -> tuple[int, ...]:
        """Positions of all errors that the job's attempts brought and the store still has, in order."""

    def append(
        self, before: Job | None, event: Event, job_id: str, now: int, actor: Actor, content: Content | None
    ) -> Job:
        """Append the event to the log and bring every projection up to it; returns the job after it. Contents that the
        event erases are gone with it.

        `before` is the job as read in this transaction, None for a new one. `now` must not be below `last_time`.
        """

    def append_text(self, text: bytes, content: Content | None) -> Record:
        """Append a record that was written elsewhere, as its text has it, with its content; returns what it says.

        For stores that are being made of another's log, see ingest.py. Raises Corrupt for what cannot come next.
        """


class SharedReader(Reader, Protocol):
    """One consistent state of a shared store."""

    def asked(self, limit: int, size: int) -> list[Asked]:
        """The first requests of the intake by number: up to `limit`, and of `size` bytes in payloads or the first
        alone."""


class SharedTransaction(Transaction, Protocol):
    """The write transaction of a shared store."""

    def still_asked(self, number: int) -> bool:
        """Whether a request that was named in Needs is still in the intake, and in no other coordinator's hands."""

    def settle_asked(self, number: int, refusal: NotEnqueued | None) -> None:
        """Take such a request out of the intake; refused, it is kept aside with the reason."""


class SealsLog(Protocol):
    """An engine that can move the oldest records out of its live store, into an archive that its readers read as one
    with what is left. No record is ever in neither place. What of a log is sealed has no effect on any answer."""

    def seal(self, before: int, pause: Callable[[], None]) -> bool:
        """Seal the next segment of the log if all of it is older than `before` (microseconds); False when it is not.

        Called on one thread at a time, beside the writer, which it does not hold up. `pause` is called every few
        milliseconds of work; what it raises ends the work, with nothing left behind. Raises StorageFull when there was
        no room, with nothing left behind, Corrupt when what would be sealed is damaged.
        """

    def empty(self) -> bool:
        """Take some of what was sealed out of the live store; False when nothing was left to take out.

        Called on the writer thread while no transaction is open, for a few milliseconds. Raises StorageFull and
        OutcomeUnknown as a commit does.
        """


class Copy(Protocol):
    """The store as of one moment, to be written somewhere else. It holds that moment until it is closed."""

    head: Head

    def write_to(self, descriptor: int) -> None:
        """Write the whole to a file descriptor; blocks until all is written. Called once, on any thread.

        Raises StoreError when it breaks off, as it does when nobody reads the other end of a pipe any more.
        """

    def close(self) -> None:
        """Let the moment go, once `write_to`, if it was called, has ended."""


class Engine(Protocol):
    """A store, open. All writing happens on one thread, which calls begin, commit and abort in turn."""

    shared: bool
    """Whether it is a SharedEngine. Then reads wait for a network and belong on threads, as many as there are."""

    def begin(self, needs: Needs = NOTHING) -> Transaction:
        """Open the write transaction. `needs` lets a shared engine lock and load in few round trips; what is asked for
        without being named there is answered all the same. A shared engine raises TryAgain or Away, as do the
        transaction's own questions."""

    def commit(self) -> None:
        """Make the open transaction durable (fsync), then visible. Raises StorageFull or OutcomeUnknown, and with a
        shared engine TryAgain or Away; whatever it raises, no transaction is open after it."""

    def abort(self) -> None:
        """Drop the open transaction."""

    def read(self) -> AbstractContextManager[Reader]:
        """A consistent view for a short read, never held across an await."""

    def copy(self) -> Copy | None:
        """What a backup is written from; None from an engine that cannot be copied as a file."""

    def room_for_new_work(self, size: int = 0) -> bool:
        """False when new jobs of `size` bytes would take of what is kept for finishing the work that is already in.

        Asked on the writer thread while a transaction is open: `size` is that of all its new jobs so far, contents and
        all.
        """

    def maintain(self) -> None:
        """Housekeeping without effect on the content; called on a timer from the writer thread."""

    def close(self) -> None: ...


class SharedEngine(Engine, Protocol):
    """A store that other coordinators write too."""

    def pulse(self) -> Pulse:
        """What is there now, by two short questions. Asked on a thread of its own. Raises Away, and TryAgain where the
        store is there but cannot say."""

    def watch(self, moved: Callable[[], None]) -> None:
        """Call `moved` when another coordinator has said that it wrote, from any thread. A hint: it may come late, in
        vain, or not at all. Called once, before the first `pulse`."""
