"""Taking in a log that was written elsewhere: its records' texts, unchanged, with the contents that lie beside them.

What comes out is the same log: the same positions, the same hashes, and so the same root; every projection is folded
on the way by the code that folds it when commands are decided. Used where a store is restored or imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from eventjobs.domain.content import Content
from eventjobs.domain.events import JobEnqueued, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.store.codec import decode_record
from eventjobs.store.contract import Corrupt, Engine, Head

CHUNK_RECORDS = 2_000
CHUNK_BYTES = 8 << 20
"""A commit ends with the record that reaches either."""


class Written(Protocol):
    """A record's text as it was written, and its content: None if it has none, or none any more."""

    @property
    def text(self) -> bytes: ...

    @property
    def content(self) -> Content | None: ...


def ingest(engine: Engine, entries: Iterable[Written], progress: Callable[[int], None] = lambda size: None) -> Head:
    """Append every entry to the engine's log, in commits of some thousand; the head after the last.

    The engine must not be in use otherwise. Of an error what was committed before it stays, and the rest is not there:
    Corrupt for an entry that cannot come next, StorageFull. `progress` is told the log's size after each commit.
    """
    pending = iter(entries)
    more = True
    while more:
        transaction = engine.begin()
        try:
            more = _fill(transaction.append_text, pending)
            size = transaction.head().size
        except BaseException:
            engine.abort()
            raise
        engine.commit()
        progress(size)
    with engine.read() as reader:
        return reader.head()


def _fill(append: Callable[[bytes, Content | None], object], pending: Iterable[Written]) -> bool:
    """Append until a commit is full; whether it is."""
    size = 0
    for records, entry in enumerate(pending, 1):
        append(entry.text, entry.content)
        size += len(entry.text) + (0 if entry.content is None else len(entry.content.text))
        if records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            return True
    return False


def record_that_follows(text: bytes, size: int, last_time: int) -> Record:
    """What a text says that is to be appended to a log of `size` records. Raises Corrupt when it cannot come next, and
    StoreError for a format that a newer eventjobs wrote."""
    record = decode_record(text)
    if record.position != size + 1:
        raise Corrupt(f"log: position {size + 1} comes next, but the record is one of position {record.position}")
    if record.time < last_time:
        raise Corrupt(f"log: the record at position {record.position} is older than the one before it")
    return record


def job_after(before: Job | None, record: Record) -> Job:
    """The job after a record of its own. Raises Corrupt when the record cannot follow on the job's last one."""
    wanted = 1 if before is None else before.version + 1
    if record.version != wanted or isinstance(record.event, JobEnqueued) is not (before is None):
        known = "not known before" if before is None else f"at version {before.version}"
        what = f"{record.event.type} of version {record.version}"
        raise Corrupt(f"log: position {record.position} is a {what} of job {record.job_id}, which is {known}")
    try:
        return evolve(before, record)
    except AttributeError as error:  # of a lease, where the job has none
        text = f"log: position {record.position} is a {record.event.type} that cannot follow: {error}"
        raise Corrupt(text) from error
