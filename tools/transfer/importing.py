"""Taking an export in: everything is verified while it is read, and the target is there when all of it was sound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Protocol

from eventjobs.cli.progress import Tell
from eventjobs.store.contract import Corrupt, Head, StorageFull, StoreError
from eventjobs.store.ingest import CHUNK_BYTES, CHUNK_RECORDS, Written
from eventjobs.tools.source import Entry
from eventjobs.tools.transfer.walk import ExportBlock
from eventjobs.tools.verify.export import verify_export
from eventjobs.tools.verify.report import Outcome, Report


class Target(Protocol):
    """Where an import goes: a store with nothing in it. Whoever made one that is not finished has to drop it."""

    def take(self, entries: Iterable[Written]) -> Head:
        """Append records, with their contents; the head after the last. Raises StoreError."""

    def finish(self) -> Head:
        """Nothing follows: let the store be there, on disk. Gives its head."""


class TargetFull(StoreError):
    """There is no room for the store that is to be made."""


def import_export(stream: BinaryIO, name: str, target: Target, progress: Tell) -> Report:
    """Take the export of a stream in if all of it is sound; the report says whether it was.

    Of one that is not, all is looked at, and the target not finished. Raises StoreError: NotAnExport, TargetFull, ...
    """
    report = Report(name)
    batch = Batch(target)

    def take(block: ExportBlock) -> None:
        if not any(check.faults_total or check.unchecked for check in report.checks):
            batch.add(block)

    walk = verify_export(stream, report, None, False, progress, take)
    if report.outcome is Outcome.SOUND:
        progress("finish", 0, 0)
        written = batch.write()
        if (written.size, written.root) != (walk.end.size, walk.end.root):
            raise Corrupt(f"the store that was made has {written.size} records and another root than the export")
        target.finish()
    return report


class Batch:
    """Blocks that wait to be written together, since each commit waits for the disk."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._entries: list[Entry] = []
        self._bytes = 0

    def add(self, block: ExportBlock) -> None:
        """The next block; written when a commit is full."""
        self._entries += block.entries
        self._bytes += sum(len(entry.content.text) for entry in block.entries if entry.content is not None)
        if len(self._entries) >= CHUNK_RECORDS or self._bytes >= CHUNK_BYTES:
            self.write()

    def write(self) -> Head:
        """Write what waits; the head after it. Raises TargetFull."""
        try:
            head = self._target.take(self._entries)
        except StorageFull as error:
            raise TargetFull(str(error)) from error
        self._entries, self._bytes = [], 0
        return head
