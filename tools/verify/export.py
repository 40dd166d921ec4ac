"""Verifying an export: all that is said of a log, but for what only a store has (checksums, pages, tables)."""

from __future__ import annotations

import base64
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from eventjobs.cli.progress import Tell
from eventjobs.projections import READ_MODELS
from eventjobs.store.codec import encode_content, seal
from eventjobs.store.contract import Head, StorageFull
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.store.lmdb.tables import position_key
from eventjobs.store.merkle import complete_root
from eventjobs.tools.entries import SourceHead
from eventjobs.tools.transfer.lines import BLOCK
from eventjobs.tools.transfer.walk import ExportBlock, ExportWalk, LineCheck
from eventjobs.tools.verify.contents import ContentWalk
from eventjobs.tools.verify.fold import Fold
from eventjobs.tools.verify.report import Check, Report, counted
from eventjobs.tools.verify.tree import Side

TakeBlock = Callable[[ExportBlock], None]
"""Given each block when it has been looked at."""


def verify_export(
    stream: BinaryIO, report: Report, kept_head: Head | None, quick: bool, progress: Tell, take: TakeBlock | None = None
) -> ExportWalk:
    """Verify what a stream brings and note it in the report. Raises NotAnExport.

    `quick` looks at the lines and the tree alone.
    """
    lines: dict[int, int] = {}

    def check(name: str) -> LineCheck:
        report.checks.append(LineCheck(name, lines=lines))
        return report.checks[-1]

    records, tree = check("records"), check("tree")
    kept = None if kept_head is None else check("kept head")
    walk = ExportWalk(stream, records)
    tree_walk = ExportTree(tree, walk.header.head, kept_head)

    def each(block: ExportBlock) -> None:
        tree_walk.add(block)
        progress("log", block.records.last, walk.header.head.size)

    if quick:
        for block in walk.blocks():
            each(block)
    else:
        _fold(walk, each, records, check("events"), check("contents"), take)
    records.facts = counted(walk.size, "record")
    report.said += tree_walk.finish(walk)
    if kept is not None:
        tree_walk.hold_against_kept(kept)
    report.tell_what_is_before()
    if walk.end is not None:
        report.size, report.root = walk.end.size, base64.b64encode(walk.end.root).decode()
    return walk


def _fold(
    walk: ExportWalk,
    each: Callable[[ExportBlock], None],
    records: Check,
    events: Check,
    contents: Check,
    take: TakeBlock | None,
) -> None:
    content_walk = ExportContents(contents)
    with tempfile.TemporaryDirectory(prefix="eventjobs-verify-") as directory, Scratch(Path(directory)) as scratch:
        fold = Fold(scratch, READ_MODELS, records, events, content_walk)
        try:
            for block in walk.blocks():
                each(block)
                content_walk.feed(block)
                fold.block(block.records)
                if take is not None:
                    take(block)
        except StorageFull as error:
            events.leave(str(error))
            return
    whole = fold.complete and walk.end is not None and walk.end.size == walk.size
    content_walk.finish(whole)
    if whole and fold.last_time != walk.end.time:
        records.fault("head_wrong", "the time in the last line is not that of the newest record")
    read = counted(fold.records - fold.unread, "event")
    events.facts = f"{read} of {counted(fold.followed + len(fold.lost), 'job')} held against what could happen then"


class ExportContents(ContentWalk):
    """See ContentWalk. The contents come with the blocks."""

    ALTERED = "is not the one recorded: altered"

    def __init__(self, check: Check) -> None:
        self._queue: deque[tuple[bytes, bytes]] = deque()
        super().__init__(iter(()), check)

    def feed(self, block: ExportBlock) -> None:
        """The contents of the next block."""
        for entry in block.entries:
            if entry.content is not None:
                key = position_key(entry.position)
                self._queue.append((key, seal(key, encode_content(entry.content))))
        if self._row is None:
            self._step()

    def _step(self) -> None:
        self._row = self._queue.popleft() if self._queue else None


class ExportTree:
    """The tree over the records, held against the roots of blocks and the root in the last line.

    Whichever of records and blocks leads to that root is the one that was not altered.
    """

    def __init__(self, check: Check, first_head: SourceHead, kept_head: Head | None) -> None:
        self._check, self._first_head, self._kept_head = check, first_head, kept_head
        self._records, self._blocks = Side(), Side()
        self._tail: list[bytes | None] = []
        self._suspects: list[int] = []
        self._size = 0
        self._roots: dict[int, tuple[bytes | None, bytes | None]] = {}
        """By size: the roots over so many records, as the records and as the blocks have it."""
        self._sizes = sorted({head.size for head in (first_head, kept_head) if head is not None})
        self._note(0, [])

    def add(self, block: ExportBlock) -> None:
        """The next block, or part of one. Only the last one may have fewer than 256 records in all."""
        self._tail += block.records.leaves
        self._size += len(block.records.leaves)
        begin = self._size - len(self._tail)
        self._note(begin, self._tail)
        if len(self._tail) < BLOCK:
            return
        root, self._tail = complete_root(self._tail), []
        if block.root is not None and block.root != root:
            self._suspects.append(begin + 1)
        self._records.add(root)
        self._blocks.add(root if block.root is None else block.root)
        self._note(self._size, [])

    def _note(self, begin: int, leaves: list[bytes | None]) -> None:
        """Keep the roots over as many records as a head stands for whose last one is among these."""
        for size in self._sizes:
            if begin <= size <= begin + len(leaves) and size - begin < BLOCK and size not in self._roots:
                tail = leaves[: size - begin]
                self._roots[size] = self._records.root(tail), self._blocks.root(tail)

    def finish(self, walk: ExportWalk) -> list[str]:
        """Hold the whole against the last line, and its beginning against the first. Gives what can still be said."""
        if walk.end is None:
            self._check.leave("the export has no end, so nothing says what the root has to be")
        elif walk.end.size != self._size:
            text = f"there are {counted(self._size, 'record')}, but the last line says {walk.end.size:,}"
            shorter = self._size < walk.end.size
            place = min(self._size, walk.end.size) + 1
            self._check.fault("log_cut" if shorter else "log_prolonged", text, place)
        else:
            self._hold(walk.end.root)
        if self._size < self._first_head.size:
            if walk.end is not None and walk.end.size < self._first_head.size:
                self._check.fault("head_wrong", "the first line's head stands for more records than the last line's")
            return []
        if self._first_head.root not in self._roots.get(self._first_head.size, ()):
            self._check.fault("head_wrong", "the first line's head is not that of the first records")
        elif walk.end is None and self._first_head.root == self._roots[self._first_head.size][0]:
            first = counted(self._first_head.size, "record")
            return [f"The first {first} are, byte for byte, those that the head in the first line stands for."]
        return []

    def _hold(self, root: bytes) -> None:
        if self._records.root(self._tail) == root:
            self._check.facts = f"the root over {counted(self._size, 'record')} is that of the last line"
            for first in self._suspects:
                self._check.fault("block_wrong", f"the root of the block from position {first} on is not its records'")
        elif self._blocks.root(self._tail) == root:
            for first in self._suspects:
                text = f"positions {first} to {first + BLOCK - 1} are not what the tree was made of: altered"
                self._check.fault("records_altered", text, first)
        else:
            self._tell_where()

    def _tell_where(self) -> None:
        text = "the root in the last line is not that over the records: one of them, or it, was altered"
        self._check.fault("records_altered", text, self._suspects[0] if self._suspects else None)

    def hold_against_kept(self, check: Check) -> None:
        """Whether the log begins with the one that the kept head stands for."""
        head = self._kept_head
        if head.size > self._size:
            there = counted(self._size, "record")
            text = f"the export has {there}, but the head that was kept stands for {head.size:,}"
            check.fault("log_cut", f"{text}: its tail was cut off, or it is older", self._size + 1)
        elif head.root in self._roots[head.size]:
            check.facts = f"the log begins with the {counted(head.size, 'record')} of the head that was kept"
        else:
            which = f"the first {counted(head.size, 'record')} are not those of the head that was kept"
            check.fault("log_rewritten", f"{which}: the log was rewritten, or the head is that of another")
