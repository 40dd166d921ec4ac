"""Taking an export in: everything is verified while it is read, and the target is there when all of it was sound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Protocol

from eventjobs.cli.progress import Tell
from eventjobs.store.contract import Corrupt, Head
from eventjobs.store.ingest import Written
from eventjobs.tools.transfer.walk import ExportBlock
from eventjobs.tools.verify.export import verify_export
from eventjobs.tools.verify.report import Outcome, Report


class Target(Protocol):
    """Where an import goes: a store with nothing in it. Whoever made one that is not finished has to drop it."""

    def take(self, entries: Iterable[Written]) -> Head:
        """Append records, with their contents; the head after the last. Raises StoreError."""

    def finish(self) -> Head:
        """Nothing follows: let the store be there, on disk. Gives its head."""


def import_export(stream: BinaryIO, name: str, target: Target, progress: Tell) -> Report:
    """Take the export of a stream in if all of it is sound; the report says whether it was.

    Of one that is not, all is looked at, and the target not finished. Raises StoreError: NotAnExport, StorageFull, ...
    """
    report = Report(name)
    written: Head | None = None

    def take(block: ExportBlock) -> None:
        nonlocal written
        if not any(check.faults_total or check.unchecked for check in report.checks):
            written = target.take(block.entries)

    walk = verify_export(stream, report, None, False, progress, take)
    if report.outcome is Outcome.SOUND:
        if written is not None and (written.size, written.root) != (walk.end.size, walk.end.root):
            raise Corrupt(f"the store that was made has {written.size} records and another root than the export")
        progress("finish", 0, 0)
        target.finish()
    return report
