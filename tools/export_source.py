"""The log of an export, read where it lies: without an index, and with no more than a block of it in memory.

The blocks are held against the roots in the export, the records after the last of them against its last line, before
any of them is handed out: what was altered is found and not read on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from eventjobs.cli.progress import Tell
from eventjobs.domain.events import Record
from eventjobs.domain.job import ContentRef
from eventjobs.store.codec import decode_outline
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.merkle import Frontier, complete_root, leaf_hash
from eventjobs.tools.entries import Entry, SourceHead, texts_of
from eventjobs.tools.transfer.lines import (
    BLOCK,
    CONTENT_START,
    LINE_BYTES_MAX,
    BlockRoot,
    ContentLine,
    Header,
    NotAnExport,
    parse,
    parse_header,
)

END_BYTES_MAX = 1_024
"""The last line is shorter."""
SCAN_BYTES = 64 << 10
"""A search for a block ends with reading so much in order."""


class ExportSource:
    """See Source: the log of the export in a file, which stays as it is. Raises NotAnExport, and what Source does."""

    def __init__(self, path: Path, progress: Tell) -> None:
        self._path, self._progress = path, progress
        with self._reading() as stream:
            self._read_header(stream)
            self._head = _end(stream)

    def head(self) -> SourceHead:
        return self._head

    def follow(self) -> SourceHead:
        return self._head

    def one_moment(self) -> AbstractContextManager[SourceHead]:
        return nullcontext(self._head)

    def texts(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        return ((entry.position, entry.text) for entry in self._entries(after, contents=False))

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return self._entries(after, contents=True)

    def records(self, after: int = 0) -> Iterator[Record]:
        return (entry.record() for entry in self._entries(after, contents=False))

    def texts_of(self, job_id: str, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        return texts_of(job_id, self.texts(), until)

    def record(self, position: int) -> Record | None:
        if not 1 <= position <= self._head.size:
            return None
        before = (position - 1) // BLOCK * BLOCK
        if before + BLOCK > self._head.size:
            return self._tail[position - 1 - before].record()
        with self._reading() as stream:
            stream.seek(self._place_of(stream, before + 1))
            entries, _ = next(_blocks(stream, before, contents=False))
        return entries[position - 1 - before].record()

    @cached_property
    def _tail(self) -> list[Entry]:
        """The records after the last block."""
        return list(self._entries(self._head.size // BLOCK * BLOCK, contents=False))

    def content(self, ref: ContentRef) -> bytes:
        with self._reading() as stream:
            stream.seek(self._place_of(stream, ref.position))
            stream.readline()
            said = parse(stream.readline(LINE_BYTES_MAX).rstrip(b"\n"))
        if not isinstance(said, ContentLine) or said.position != ref.position:
            raise Corrupt(f"contents: the content of position {ref.position} is missing")
        return said.content.text

    def _entries(self, after: int, contents: bool) -> Iterator[Entry]:
        """All is read from the beginning, or the last records could not be held against the root."""
        over_blocks = Frontier()
        with self._reading() as stream:
            self._read_header(stream)
            for block, root in _blocks(stream, 0, contents):
                if root is not None:
                    over_blocks.append(root)
                else:
                    self._check_end(over_blocks, block)
                yield from (entry for entry in block if entry.position > after)
                self._progress("log", over_blocks.size * BLOCK, self._head.size)

    def _check_end(self, over_blocks: Frontier, tail: list[Entry]) -> None:
        tree = Frontier(over_blocks.size * BLOCK, over_blocks.peaks)
        for entry in tail:
            tree.append(leaf_hash(entry.text))
        if (tree.size, tree.root()) != (self._head.size, self._head.root):
            raise Corrupt("the last line is not that of the records: one of them was altered, or some are missing")

    def _place_of(self, stream: BinaryIO, position: int) -> int:
        """The byte at which the record of a position begins, from a search by halves: positions only grow."""
        low, high = 0, stream.seek(0, 2)
        while high - low > SCAN_BYTES:
            middle = (low + high) // 2
            found = _first_record(stream, middle)
            if found is None or found[1] >= position:
                high = middle
            else:
                low = found[0]
        place = low - 1 if low else 0
        while (found := _first_record(stream, place)) is not None and found[1] < position:
            place = found[0]
        if found is None or found[1] != position:
            raise Corrupt(f"position {position} is missing")
        return found[0]

    def _read_header(self, stream: BinaryIO) -> Header:
        return parse_header(stream.readline(LINE_BYTES_MAX))

    @contextmanager
    def _reading(self) -> Iterator[BinaryIO]:
        """The file from its beginning; whatever is wrong with it is told with its name."""
        try:
            with self._path.open("rb") as stream:
                yield stream
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}") from error
        except NotAnExport as error:
            raise NotAnExport(f"{self._path}: {error}") from error
        except Corrupt as error:
            raise Corrupt(f"{self._path}: {error}; `eventjobs verify` tells more") from error


def _blocks(stream: BinaryIO, size: int, contents: bool) -> Iterator[tuple[list[Entry], bytes | None]]:
    """The blocks that follow `size` records, each with its root, and at the end the records after them, with None."""
    block: list[Entry] = []
    for said in _said(stream, contents):
        if isinstance(said, bytes) and len(block) < BLOCK:
            size += 1
            block.append(Entry(size, said, None))
        elif isinstance(said, ContentLine) and block and said.position == size and block[-1].content is None:
            block[-1] = Entry(size, block[-1].text, said.content)
        elif isinstance(said, BlockRoot) and (len(block), said.last) == (BLOCK, size):
            if complete_root([leaf_hash(entry.text) for entry in block]) != said.root:
                raise Corrupt(f"positions {size - BLOCK + 1} to {size} are not what their root stands for: altered")
            yield block, said.root
            block = []
        elif isinstance(said, SourceHead) and len(block) < BLOCK:
            yield block, None
            return
        else:
            raise Corrupt(f"the line after position {size} is not one that belongs there")
    raise Corrupt(f"the export breaks off after position {size}: it was cut off")


def _said(stream: BinaryIO, contents: bool) -> Iterator[bytes | ContentLine | BlockRoot | SourceHead]:
    """What the lines say, without the contents if they are not wanted. Raises Corrupt where one is cut off."""
    while line := stream.readline(LINE_BYTES_MAX):
        if not line.endswith(b"\n"):
            raise Corrupt("a line is cut off, or too long")
        if contents or not line.startswith(CONTENT_START):
            yield parse(line[:-1])


def _first_record(stream: BinaryIO, after: int) -> tuple[int, int] | None:
    """Place and position of the first record whose line begins beyond a byte; None after the last."""
    stream.seek(after)
    stream.readline()
    while True:
        place = stream.tell()
        line = stream.readline(LINE_BYTES_MAX)
        if not line:
            return None
        said = b"" if line.startswith(CONTENT_START) else parse(line.rstrip(b"\n"))
        if isinstance(said, bytes) and said:
            return place, decode_outline(said).position


def _end(stream: BinaryIO) -> SourceHead:
    """The head in the last line."""
    stream.seek(max(0, stream.seek(0, 2) - END_BYTES_MAX))
    rest = stream.read()
    line = rest[rest.rfind(b"\n", 0, -1) + 1 :]
    said = parse(line[:-1]) if line.endswith(b"\n") else None
    if not isinstance(said, SourceHead):
        raise Corrupt("the export has no end: it was cut off")
    return said
