"""The files of a log's archive: each by itself, against the manifest, and against the tree; and one file alone."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from pathlib import Path

from eventjobs.store.archive import MANIFEST_FILE, Archive
from eventjobs.store.archive.segment import Segment
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.lmdb.snapshot import NoStore, Snapshot
from eventjobs.tools.verify.report import Report, counted

_NAME = re.compile(r"\d{12,}-\d{12,}\.log(\.partial)?")

Progress = Callable[[str, int, int], None]


def is_archive_file(path: Path) -> bool:
    """Whether a path is that of one archive file, by its name."""
    return _NAME.fullmatch(path.name) is not None and not path.is_dir()


def check_file(path: Path, report: Report, progress: Progress) -> None:
    """Check one archive file alone. Raises NoStore when there is none that could be looked at."""
    if not path.exists():
        raise NoStore(f"{path} does not exist")
    check = report.check("archive file")
    try:
        segment = Segment(path)
        footer = segment.footer
        for part, _ in enumerate(segment.check(), 1):
            progress("archive", part, footer.record_parts)
    except Corrupt as error:
        check.fault("archive_damaged", str(error))
        return
    except StoreError as error:
        raise NoStore(str(error)) from error
    report.size, report.root = footer.last - footer.first + 1, base64.b64encode(footer.root).decode()
    check.facts = f"positions {footer.first:,} to {footer.last:,}; their records lead to the root that it names"


def check_archive(snapshot: Snapshot, report: Report, quick: bool, progress: Progress) -> None:
    """Check the archive of a store, if it has one. Raises StoreError for one that cannot be read, or is newer.

    `quick` looks at the ends of the files alone: what is between them is looked at with the records.
    """
    try:
        archive = snapshot.archive
        if not archive.end:
            return
    except Corrupt as error:
        report.check("archive").fault("archive_missing", str(error))
        return
    check = report.check("archive")
    for index in range(len(archive.manifest.entries)):
        try:
            _check_segment(archive, index, snapshot, quick)
        except Corrupt as error:
            check.fault("archive_damaged", str(error))
        progress("archive", index + 1, len(archive.manifest.entries))
    check.facts = f"{counted(len(archive.manifest.entries), 'file')} with {counted(archive.end, 'record')}"
    known = {MANIFEST_FILE, *(path.name for path in archive.files())}
    if others := sorted(set(os.listdir(archive.directory)) - known):
        names = ", ".join(os.fsencode(name).decode("utf-8", "backslashreplace") for name in others)
        report.said.append(f"Not looked at, for the manifest of the archive does not name it: {names}.")


def _check_segment(archive: Archive, index: int, snapshot: Snapshot, quick: bool) -> None:
    entry, segment = archive.manifest.entries[index], archive.segment(index)
    try:
        root = snapshot.reader().subtree(archive.manifest.level, index)
    except StoreError:
        root = entry.root  # the check of the tree tells of it
    if root != entry.root:
        raise Corrupt(f"{segment.path} has other records than the tree was made of")
    if quick:
        return
    for _ in segment.check():
        pass
    if segment.sha256() != entry.sha256:
        raise Corrupt(f"{segment.path} does not have the SHA-256 that the manifest says")
