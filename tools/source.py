"""A log read from outside, by programs that run beside a coordinator or without one: one face for whatever holds it.

A source stands for the log as of one head, which is that of the moment it was opened. It holds nothing open between
two calls and reads the log in short stretches, so that the pages of a running coordinator's store are not kept back.
Records stay, but contents may be erased between two calls: who must have both as they were reads at one moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from eventjobs.cli.progress import Tell
from eventjobs.cli.stores import Database
from eventjobs.domain.events import Record
from eventjobs.domain.job import ContentRef
from eventjobs.store.codec import decode_content, unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.reader import StoredHead
from eventjobs.store.lmdb.snapshot import Snapshot, open_snapshot, standing_still
from eventjobs.store.lmdb.tables import CONTENTS, HEAD_KEY, META, key_position, position_key
from eventjobs.tools.entries import Entry, SourceHead, texts_of
from eventjobs.tools.export_source import ExportSource
from eventjobs.tools.transfer.lines import is_export

if TYPE_CHECKING:
    from eventjobs.store.postgres.outside import Outside

STRETCH_RECORDS = 4_096
STRETCH_BYTES = 8 << 20
"""A stretch, which is read in one look at the store, ends with the record or content that reaches either."""


class Source(Protocol):
    """The log as of one head. Everything raises Corrupt for what is damaged, NoStore for what is not there any more."""

    def head(self) -> SourceHead:
        """What the log is read up to."""

    def follow(self) -> SourceHead:
        """Move on to the newest head there is now, and give it."""

    def one_moment(self) -> AbstractContextManager[SourceHead]:
        """Move on to the newest head, and see everything as it is now, contents too, until the context ends. A store
        keeps meanwhile what its coordinators free. Raises NoStore at the end where that could not be held."""

    def texts(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Position and text of each record above `after`, in order, up to the head; never with a gap."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The same, with the contents."""

    def records(self, after: int = 0) -> Iterator[Record]:
        """What the texts say."""

    def texts_of(self, job_id: str, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Position and text of each record of one job, up to a position. What lies in an archive is found by the index
        in its files."""

    def record(self, position: int) -> Record | None:
        """The record at a position; None outside of 1 to the head's size."""

    def content(self, ref: ContentRef) -> bytes:
        """The text of a content. Raises Corrupt also when it is not there (any more)."""


def quiet(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def open_source(place: Path | Database, progress: Tell = quiet) -> AbstractContextManager[Source]:
    """The log of the store in a directory or a database, of the copy in a file, or of an export. Raises NoStore or
    Corrupt, and of a database StoreError, Away among them. `progress` is told how far the log was read."""
    if isinstance(place, Database):
        return nullcontext(DatabaseSource(place, progress))
    return nullcontext(ExportSource(place, progress) if is_export(place) else StoreSource(place, progress))


class StretchedSource:
    """See Source: what is the same wherever the stretches come from."""

    def __init__(self, progress: Tell) -> None:
        self._progress = progress
        self._head = self.follow()

    def head(self) -> SourceHead:
        return self._head

    def texts(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        for entry in self._read(after, contents=False):
            yield entry.position, entry.text

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return self._read(after, contents=True)

    def records(self, after: int = 0) -> Iterator[Record]:
        return (entry.record() for entry in self._read(after, contents=False))

    def texts_of(self, job_id: str, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        return texts_of(job_id, self.texts(), until)

    def _read(self, after: int, contents: bool) -> Iterator[Entry]:
        while after < self._head.size:
            stretch = self._stretch(after, contents)
            yield from stretch
            after = stretch[-1].position
            self._progress("log", after, self._head.size)


class StoreSource(StretchedSource):
    """See Source: the log of an LMDB store, of which a coordinator may be running."""

    def __init__(self, path: Path, progress: Tell) -> None:
        self._path = path
        self._held: Snapshot | None = None
        super().__init__(progress)

    def follow(self) -> SourceHead:
        with self._look() as snapshot:
            self._head = _head_of(snapshot)
        return self._head

    @contextmanager
    def one_moment(self) -> Iterator[SourceHead]:
        with standing_still(self._path), open_snapshot(self._path) as self._held:
            try:
                yield self.follow()
            finally:
                self._held = None

    def _look(self) -> AbstractContextManager[Snapshot]:
        return open_snapshot(self._path) if self._held is None else nullcontext(self._held)

    def texts_of(self, job_id: str, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        with self._look() as snapshot:
            archived = min(snapshot.archived, self._head.size)
            archive = snapshot.archive if archived else None
        last = archived if until is None else min(archived, until)
        for position in archive.positions_of(job_id) if archived else ():
            if position > last:
                break
            yield position, archive.texts(position - 1, 1)[0]
        yield from texts_of(job_id, self.texts(archived), until)

    def record(self, position: int) -> Record | None:
        if not 1 <= position <= self._head.size:
            return None
        with self._look() as snapshot:
            (entry,) = islice(_entries(snapshot, position - 1, contents=False), 1)
        return entry.record()

    def content(self, ref: ContentRef) -> bytes:
        key = position_key(ref.position)
        with self._look() as snapshot:
            stored = snapshot.stored(CONTENTS, key)
            if stored is None:
                raise Corrupt(f"contents: the content of position {ref.position} is missing")
            return decode_content(unseal(key, stored, CONTENTS)).text

    def _stretch(self, after: int, contents: bool) -> list[Entry]:
        """The next records, at least one."""
        found: list[Entry] = []
        size, room = 0, min(STRETCH_RECORDS, self._head.size - after)
        with self._look() as snapshot:
            for entry in islice(_entries(snapshot, after, contents), room):
                found.append(entry)
                size += len(entry.text) + (0 if entry.content is None else len(entry.content.text))
                if size >= STRETCH_BYTES:
                    break
            else:
                if len(found) < room:
                    raise Corrupt(f"log: position {after + len(found) + 1} is missing")
        return found


class DatabaseSource(StretchedSource):
    """See Source: the log of a store in a database, of which coordinators may be running."""

    def __init__(self, database: Database, progress: Tell) -> None:
        self._database = database
        self._held: Outside | None = None
        super().__init__(progress)

    def follow(self) -> SourceHead:
        with self._look() as store:
            stored = store.stored_head()
            self._head = SourceHead(stored.frontier.size, stored.frontier.root(), stored.last_time)
        return self._head

    @contextmanager
    def one_moment(self) -> Iterator[SourceHead]:
        with self._database.outside() as self._held:
            try:
                yield self.follow()
            finally:
                self._held = None

    def _look(self) -> AbstractContextManager[Outside]:
        return self._database.outside() if self._held is None else nullcontext(self._held)

    def record(self, position: int) -> Record | None:
        if not 1 <= position <= self._head.size:
            return None
        with self._look() as store:
            return Entry(position, store.record_text(position), None).record()

    def content(self, ref: ContentRef) -> bytes:
        with self._look() as store:
            return store.content(ref)

    def _stretch(self, after: int, contents: bool) -> list[Entry]:
        """The next records, at least one."""
        last = min(after + STRETCH_RECORDS, self._head.size)
        with self._look() as store:
            if contents:
                sizes = store.content_sizes(after, last)
                over = (place for (place, _), size in zip(sizes, accumulate(size for _, size in sizes), strict=True)
                        if size >= STRETCH_BYTES)  # fmt: skip
                last = next(over, last)
            found = store.contents_between(after, last) if contents else {}
            texts = enumerate(store.record_texts(after, last - after), after + 1)
            return [Entry(position, text, found.get(position)) for position, text in texts]


def _head_of(snapshot: Snapshot) -> SourceHead:
    stored = snapshot.stored(META, HEAD_KEY)
    if stored is None:
        raise Corrupt("meta: the head of the log is missing")
    try:
        head = StoredHead.decode(unseal(HEAD_KEY, stored, META))
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        raise Corrupt(f"meta: the head of the log cannot be read: {error}") from error
    return SourceHead(head.frontier.size, head.frontier.root(), head.last_time)


def _entries(snapshot: Snapshot, after: int, contents: bool) -> Iterator[Entry]:
    """The records above a position as they lie in the store, each checked against its checksum."""
    beside = snapshot.rows(CONTENTS, position_key(after + 1)) if contents else iter(())
    content = next(beside, None)
    position = after
    for key, stored in snapshot.log_rows(after + 1):
        position += 1
        if key != position_key(position):
            raise Corrupt(f"log: position {position} is missing")
        own = None
        if content is not None and content[0] == key:
            own = decode_content(unseal(*content, CONTENTS))
            content = next(beside, None)
        elif content is not None and content[0] < key:
            raise Corrupt(f"contents: position {key_position(content[0])} has a content, but no record")
        yield Entry(position, unseal(key, stored, f"the record at position {position}"), own)
