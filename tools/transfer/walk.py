"""Going through an export, in blocks of 256 records, or in parts of one where its contents are large.

Whatever is not as it has to be is told with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from attrs import define, field, frozen

from eventjobs.store.contract import Corrupt
from eventjobs.store.merkle import leaf_hash
from eventjobs.tools.entries import Entry, SourceHead
from eventjobs.tools.transfer.lines import BLOCK, LINE_BYTES_MAX, BlockRoot, ContentLine, Header, parse, parse_header
from eventjobs.tools.verify.report import Check
from eventjobs.tools.verify.walk import Block

PART_BYTES = 8 << 20
"""A part of a block ends with the record whose content reaches this, so that not more is in memory."""


@define
class LineCheck(Check):
    """A check that tells of each fault in which line it is, too."""

    lines: dict[int, int] = field(factory=dict)
    """Line by position, of the records that are being looked at."""

    def fault(self, sort: str, text: str, position: int | None = None) -> None:
        line = self.lines.get(position)
        Check.fault(self, sort, text if line is None else f"line {line}: {text}", position)


@frozen
class ExportBlock:
    """Up to 256 records with their contents: a block, or the next part of one.

    With the last record of a block comes the root over all of it as the export has it, if it has.
    """

    records: Block
    entries: list[Entry]
    root: bytes | None


class ExportWalk:
    """Reads an export once. `header` is there at once; after `blocks`, `end` is its last line, None if there is none.

    Raises NotAnExport for what does not begin as one. `lines` has the line of each record of the block at hand.
    """

    def __init__(self, stream: BinaryIO, check: LineCheck) -> None:
        self._stream, self._check = stream, check
        self._line = 1
        self.lines = check.lines
        self.end: SourceHead | None = None
        self.size = 0
        self.header: Header = parse_header(stream.readline(LINE_BYTES_MAX))

    def blocks(self) -> Iterator[ExportBlock]:
        """The blocks in order, each of 256 records but the last; one with large contents comes in parts."""
        entries: list[Entry] = []
        root, size = None, 0
        for said in self._said():
            if isinstance(said, bytes):
                if entries and (self.size % BLOCK == 0 or size >= PART_BYTES):
                    yield self._block(entries, root)
                    entries, root, size = [], None, 0
                self.size += 1
                self.lines[self.size] = self._line
                entries.append(Entry(self.size, said, None))
            elif isinstance(said, ContentLine):
                self._take_content(said, entries)
                size += len(said.content.text)
            elif entries and self.size % BLOCK == 0 and said.last == self.size and root is None:
                root = said.root
            else:
                self._fault("line_misplaced", "the root of a block is not where it belongs")
        if entries:
            yield self._block(entries, root)

    def _block(self, entries: list[Entry], root: bytes | None) -> ExportBlock:
        texts = [entry.text for entry in entries]
        block = Block(entries[0].position, texts, [leaf_hash(text) for text in texts])
        if block.last % BLOCK == 0 and root is None:
            self._check.fault("line_missing", f"the root over the block up to position {block.last} is missing")
        found = ExportBlock(block, entries, root)
        for position in [each for each in self.lines if each < block.first]:
            del self.lines[position]
        return found

    def _take_content(self, said: ContentLine, entries: list[Entry]) -> None:
        if not entries or said.position != self.size or entries[-1].content is not None:
            self._fault("line_misplaced", f"a content of position {said.position} is not where it belongs")
        else:
            entries[-1] = Entry(self.size, entries[-1].text, said.content)

    def _said(self) -> Iterator[bytes | ContentLine | BlockRoot]:
        """What the lines say, up to the one that ends the export; and whether that one is there, and the last."""
        while line := self._stream.readline(LINE_BYTES_MAX):
            self._line += 1
            if not line.endswith(b"\n"):
                too_long = len(line) == LINE_BYTES_MAX
                if too_long:
                    self._fault("line_damaged", "is too long")
                else:
                    self._cut_off(f"the export breaks off in line {self._line}")
                return
            try:
                said = parse(line[:-1])
            except Corrupt as error:
                self._fault("line_damaged", str(error))
                continue
            if isinstance(said, SourceHead):
                self.end = said
                if self._stream.read(1):
                    self._line += 1
                    self._fault("line_misplaced", "the export goes on after its end")
                return
            yield said
        self._cut_off(f"the export breaks off after line {self._line}")

    def _cut_off(self, where: str) -> None:
        """Tell of what is lost at the end, and where that begins: how many records there were, the first line says."""
        there = self.header.head.size
        if self.size < there:
            text = f"{there - self.size:,} of the {there:,} records that the first line speaks of are lost"
            self._check.fault("export_cut", f"{where}: it was cut off, and {text}", self.size + 1)
        else:
            self._check.fault("export_cut", f"{where}: it was cut off, and its last line is lost")

    def _fault(self, sort: str, text: str) -> None:
        self._check.fault(sort, f"line {self._line}: {text}")
