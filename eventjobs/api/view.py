"""What the API asks of a consistent view of the store, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from eventjobs.domain.events import Record
from eventjobs.domain.job import ContentRef, Job
from eventjobs.domain.projection import Rows


class Head(Protocol):
    """The log's size in records and the root of the Merkle tree over them (32 bytes)."""

    size: int
    root: bytes


class Copy(Protocol):
    """The store as of one moment, to be written somewhere else."""

    head: Head

    def write_to(self, descriptor: int) -> None:
        """Write the whole to a file descriptor; blocks. Raises an error when it breaks off."""


class View(Rows, Protocol):
    """One state of the store, for a short read that is never held across an await."""

    def head(self) -> Head: ...

    def job(self, job_id: str) -> Job | None:
        """The job with this id (canonical text)."""

    def content(self, ref: ContentRef) -> bytes:
        """The text of a content."""

    def contents(self, refs: Sequence[ContentRef]) -> dict[int, bytes]:
        """The texts of several contents by position."""

    def record(self, position: int) -> Record | None:
        """The record at a position (from 1)."""

    def records(self, after: int, limit: int) -> list[Record]:
        """Up to `limit` records with positions above `after`, in order."""

    def record_text(self, position: int) -> bytes | None:
        """The bytes of the record at a position, as they were written."""

    def root(self, size: int) -> bytes:
        """The root of the tree over the first `size` records."""

    def inclusion_proof(self, position: int, size: int) -> list[bytes]:
        """What shows that the record at a position is among the first `size`."""

    def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """What shows that the first `size` records begin with the first `old_size`."""

    def ahead_of(
        self, job: Job, wanted: Callable[[tuple[str, str]], bool], now: int, limit: int
    ) -> dict[tuple[str, str], int]:
        """How many due jobs come before a waiting one, by (queue, kind); no more than `limit` are counted."""
