"""Appending a record, as every engine's transaction does it before it puts the record where it keeps such things."""

from __future__ import annotations

from abc import ABC, abstractmethod

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import Content
from eventjobs.domain.events import Event, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job
from eventjobs.store.codec import encode_record
from eventjobs.store.ingest import job_after, record_that_follows


class Appending(ABC):
    """The appending half of store.contract.Transaction."""

    last_time: int

    def append(
        self, before: Job | None, event: Event, job_id: str, now: int, actor: Actor, content: Content | None
    ) -> Job:
        if now < self.last_time:
            raise ValueError(f"time would go backwards in the log: {now} after {self.last_time}")
        if before is None and self.kept(job_id) is not None:
            raise ValueError(f"job {job_id} exists already")
        version = 1 if before is None else before.version + 1
        record = Record(self._log_size() + 1, job_id, version, now, actor, event)
        after = evolve(before, record)
        self._take(before, record, encode_record(record), after, content)
        return after

    def append_text(self, text: bytes, content: Content | None) -> Record:
        record = record_that_follows(text, self._log_size(), self.last_time)
        before = self.kept(record.job_id)
        self._take(before, record, text, job_after(before, record), content)
        return record

    @abstractmethod
    def kept(self, job_id: str) -> Job | None:
        """The job, retired or not."""

    @abstractmethod
    def _log_size(self) -> int:
        """How many records there are, those of this transaction included."""

    @abstractmethod
    def _take(self, before: Job | None, record: Record, text: bytes, after: Job, content: Content | None) -> None:
        """Put a record where it belongs, with all that follows from it."""
