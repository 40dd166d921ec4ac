"""The verification as a whole: which checks there are, in which order, and what follows from them."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from eventjobs.projections import READ_MODELS
from eventjobs.store.archive import ARCHIVE_DIRECTORY
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt, Head, StorageFull
from eventjobs.store.indexes import INDEXES
from eventjobs.store.lmdb.damaged import open_damaged
from eventjobs.store.lmdb.reader import StoredHead
from eventjobs.store.lmdb.scratch import Scratch
from eventjobs.store.lmdb.snapshot import (
    NoStore,
    Snapshot,
    copy_of,
    data_file,
    in_use,
    open_snapshot,
    standing_still,
    structural_faults,
)
from eventjobs.store.lmdb.structure import looks_sound
from eventjobs.store.lmdb.tables import (
    ARCHIVED_KEY,
    CONTENTS,
    FORMAT_KEY,
    HEAD_KEY,
    LOG,
    META,
    PROJECTION_PREFIX,
    SCRATCH,
    TREE,
    TREE_KEY,
)
from eventjobs.tools.transfer.lines import is_export
from eventjobs.tools.verify.archive import check_archive, check_file, is_archive_file
from eventjobs.tools.verify.compare import Comparison, database
from eventjobs.tools.verify.contents import ContentWalk
from eventjobs.tools.verify.export import verify_export
from eventjobs.tools.verify.fold import Fold
from eventjobs.tools.verify.report import Check, Report, counted, path_text
from eventjobs.tools.verify.tree import TreeWalk
from eventjobs.tools.verify.walk import LogWalk

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


def verify(path: Path, kept_head: Head | None, quick: bool, progress: Progress) -> Report:
    """Verify the store in a directory; or a copy, an archive file or an export, which are files. Raises NoStore when
    there is nothing to verify, and NotAnExport.

    `quick` looks at checksums, positions and the tree alone. The store of a running coordinator is copied first.
    """
    report = Report(path_text(path))
    if is_export(path):
        with path.open("rb") as stream:
            verify_export(stream, report, kept_head, quick, progress)
        return report
    if is_archive_file(path):
        if kept_head is not None:
            raise NoStore(f"{path} is a part of a log; whether a log begins with a head is seen from its store")
        check_file(path, report, progress)
        return report
    own_file = data_file(path)
    archive = own_file.with_name(ARCHIVE_DIRECTORY)
    with _standing_still(own_file, progress) as file:
        progress("structure", 0, 0)
        sound = looks_sound(file) if quick else _check_structure(file, report)
        try:
            with (open_snapshot if sound else open_damaged)(file, archive) as snapshot:
                _Verification(snapshot, report, kept_head, progress).run(quick)
        except (NoStore, Corrupt) as error:
            if sound or (quick and isinstance(error, NoStore)):
                raise
            records = report.check("records")
            if isinstance(error, Corrupt):
                records.fault("unreadable", str(error))
            else:
                records.leave(str(error))
    return report


@contextmanager
def _standing_still(file: Path, progress: Progress) -> Iterator[Path]:
    """The file, or a copy of it where a coordinator writes on. Raises NoStore when one began to, meanwhile."""
    if in_use(file):
        with tempfile.TemporaryDirectory(prefix="eventjobs-verify-") as directory:
            progress("copy", 0, 0)
            copy = Path(directory) / file.name
            copy_of(file, copy)
            yield copy
        return
    with standing_still(file):
        yield file


def _check_structure(file: Path, report: Report) -> bool:
    check = report.check("structure")
    faults = structural_faults(file)
    for fault in faults:
        check.fault("structure", fault)
    if not faults:
        check.facts = "every page of the file is where it belongs"
    return not faults


class _Verification:
    """One verification of one snapshot."""

    def __init__(self, snapshot: Snapshot, report: Report, kept_head: Head | None, progress: Progress) -> None:
        self._snapshot, self._report, self._kept_head, self._progress = snapshot, report, kept_head, progress

    def run(self, quick: bool) -> None:
        stored = self._stored_head(self._report.check("head"))
        if stored is not None:
            head = stored.head()
            self._report.size, self._report.root = head.size, base64.b64encode(head.root).decode()
        check_archive(self._snapshot, self._report, quick, self._progress)
        records, tree = self._report.check("records"), self._report.check("tree")
        kept = None if self._kept_head is None else self._report.check("kept head")
        size = None if stored is None else stored.frontier.size
        walk = LogWalk(self._snapshot, size, records)
        tree_walk = TreeWalk(self._snapshot, None if stored is None else stored.frontier, self._kept_head, tree)
        if quick:
            self._walk(walk, tree_walk, None)
        else:
            self._walk_and_fold(walk, tree_walk, stored)
        self._report.said += tree_walk.finish(walk.end)
        if kept is not None:
            tree_walk.hold_against_kept(self._kept_head, walk.end, kept)
        records.facts = f"the checksums of {counted(walk.read, 'record')} match"
        if not records.faults_total:
            records.facts += ", no position is missing"
        self._report.tell_what_is_before()

    def _stored_head(self, check: Check) -> StoredHead | None:
        try:
            stored = self._snapshot.stored(META, HEAD_KEY)
            head = None if stored is None else StoredHead.decode(unseal(HEAD_KEY, stored, META))
        except (Corrupt, ValueError, TypeError, msgspec.DecodeError) as error:
            check.fault("head_damaged", f"the store's head cannot be read: {error}")
            return None
        if head is None:
            check.fault("head_missing", "the store has no head")
            return None
        check.facts = counted(head.frontier.size, "record")
        return head

    def _walk(self, walk: LogWalk, tree_walk: TreeWalk, fold: Fold | None) -> None:
        total = self._snapshot.log_size()
        for block in walk.blocks():
            tree_walk.add(block)
            if fold is not None:
                fold.block(block)
            self._progress("log", block.last, total)

    def _walk_and_fold(self, walk: LogWalk, tree_walk: TreeWalk, stored: StoredHead | None) -> None:
        events, contents, jobs = (self._report.check(name) for name in ("events", "contents", "jobs"))
        content_walk = ContentWalk(self._snapshot.rows(CONTENTS), contents)
        with tempfile.TemporaryDirectory(prefix="eventjobs-verify-") as directory, Scratch(Path(directory)) as scratch:
            fold = Fold(scratch, READ_MODELS, self._named("records"), events, content_walk)
            try:
                self._walk(walk, tree_walk, fold)
            except StorageFull as error:
                events.leave(str(error))
                jobs.leave(str(error))
                return
            content_walk.finish(fold.complete and (stored is None or walk.end == stored.frontier.size))
            seen = counted(fold.followed + len(fold.lost), "job")
            read = counted(fold.records - fold.unread, "event")
            events.facts = f"{read} of {seen} held against what could happen then"
            if stored is not None and fold.complete and fold.last_time != stored.last_time:
                self._named("head").fault("head_wrong", "the head's time is not that of the newest record")
            self._compare(fold, walk.end, jobs)
            if not fold.complete:
                text = f"{fold.followed:,} of {seen} can be followed through all their records that can be read."
                self._report.said.append(text)

    def _named(self, name: str) -> Check:
        return next(check for check in self._report.checks if check.name == name)

    def _compare(self, fold: Fold, size: int, jobs: Check) -> None:
        tables = [table for projection in (*INDEXES, *READ_MODELS) for table in projection.tables]
        total, done = sum(self._snapshot.count(database(table)) for table in tables), 0

        def step(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress("tables", done, total)

        step(0)
        comparison = Comparison(self._snapshot, fold, size, step)
        comparison.jobs(jobs)
        for projection in fold.projections:
            comparison.projection(projection, self._report.check(projection.name))
        known = {META, LOG, CONTENTS, TREE, SCRATCH, *map(database, tables)}
        if unknown := sorted(set(self._snapshot.names) - known):
            self._report.said.append(f"Not looked at, for it is not known here: {', '.join(unknown)}.")
        keys = {FORMAT_KEY, HEAD_KEY, TREE_KEY, ARCHIVED_KEY}
        keys |= {PROJECTION_PREFIX + projection.name.encode() for projection in (*INDEXES, *READ_MODELS)}
        if unknown := [key for key, _ in self._snapshot.rows(META) if key not in keys]:
            names = ", ".join(key.decode("utf-8", "backslashreplace") for key in unknown)
            self._report.said.append(f"Not looked at, for it is not known here: {META}: {names}.")
