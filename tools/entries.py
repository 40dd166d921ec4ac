"""What a log is read as from outside: its head, and its records as they were written with what lies beside them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from attrs import frozen

from eventjobs.domain.content import Content
from eventjobs.domain.events import Record
from eventjobs.store.codec import decode_outline, decode_record
from eventjobs.store.contract import Corrupt, Head


@frozen
class SourceHead(Head):
    """Size and root of the log, and the time of its newest record (microseconds; 0 for an empty log)."""

    time: int

    def root_text(self) -> str:
        """The root in base64, as heads have it."""
        return base64.b64encode(self.root).decode()


@frozen
class Entry:
    """A record's text as it was written, and the content that lies beside it: None if it has none, or none any more."""

    position: int
    text: bytes
    content: Content | None

    def record(self) -> Record:
        """What the text says. Raises Corrupt, and StoreError for a format that a newer eventjobs wrote."""
        record = decode_record(self.text)
        if record.position != self.position:
            raise Corrupt(f"log: the record at position {self.position} says that it belongs at {record.position}")
        return record


def texts_of(job_id: str, texts: Iterable[tuple[int, bytes]], until: int | None) -> Iterator[tuple[int, bytes]]:
    """Those among the texts of records, in the order of their positions up to `until`, that are the job's."""
    mark = job_id.encode()
    for position, text in texts:
        if until is not None and position > until:
            return
        if mark in text and decode_outline(text).job_id == job_id:
            yield position, text
