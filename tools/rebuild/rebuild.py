"""Comparing the projections of a store with what its log makes, and putting right what differs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eventjobs.cli.progress import Tell
from eventjobs.domain.projection import Projection, Table
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive import ARCHIVE_DIRECTORY
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.store.indexes import INDEXES
from eventjobs.store.lmdb import DEFAULT_MAP_SIZE
from eventjobs.store.lmdb.aside import Aside, Rows, differences, put_in_place
from eventjobs.store.lmdb.guards import DirectoryLock
from eventjobs.store.lmdb.snapshot import Snapshot, copy_of, data_file, in_use, open_snapshot, refuse_cut_off
from eventjobs.store.lmdb.tables import META, PROJECTION_PREFIX, database_name, decode_progress
from eventjobs.tools.rebuild.findings import Counted, Finding

PROJECTIONS: dict[str, Projection] = {projection.name: projection for projection in (*INDEXES, *READ_MODELS)}
"""What can be made anew, by name: what commands are decided by, and the read models."""
WORK = "rebuild.partial"
"""The directory, within that of the store, in which projections are made; what a killed run left is removed."""


def check(path: Path, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    """Compare, and change nothing; beside a running coordinator on a copy. Raises StoreError."""
    file = data_file(path)
    archive = file.with_name(ARCHIVE_DIRECTORY)
    with tempfile.TemporaryDirectory(prefix="eventjobs-rebuild-") as directory:
        if in_use(file):
            tell("copy", 0, 0)
            copy = Path(directory) / file.name
            copy_of(file, copy)
            file = copy
        work = Path(directory) / WORK
        work.mkdir()
        with open_snapshot(file, archive) as snapshot, Aside(work, projections) as aside:
            aside.fold(snapshot.reader(), lambda done, total: tell("log", done, total))
            return _findings(snapshot, aside, projections, tell)


def rebuild(path: Path, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    """Make projections anew beside the old ones, compare, and put what differs in place in one commit.

    Raises AlreadyOpen when a coordinator has the store, StoreError when it cannot be done; then nothing was changed.
    """
    file = data_file(path)
    directory = file.parent
    with _locked(directory), _work(directory) as work:
        refuse_cut_off(file)
        with Aside(work, projections) as aside:
            with open_snapshot(file) as snapshot:
                aside.fold(snapshot.reader(), lambda done, total: tell("log", done, total))
                findings = _findings(snapshot, aside, projections, tell)
            names = {finding.name for finding in findings if not finding.same}
            if names:
                tell("commit", 0, 0)
                wanting = [each for each in projections if each.name in names]
                put_in_place(directory, DEFAULT_MAP_SIZE, aside, wanting)
    return findings


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    lock = DirectoryLock(directory)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _work(directory: Path) -> Iterator[Path]:
    work = directory / WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work)


def _findings(snapshot: Snapshot, aside: Aside, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    size = snapshot.reader().head().size
    findings = []
    for number, projection in enumerate(projections):
        tell("tables", number, len(projections))
        findings.append(_finding(snapshot, aside, projection, size))
    tell("tables", len(projections), len(projections))
    return findings


def _finding(snapshot: Snapshot, aside: Aside, projection: Projection, size: int) -> Finding:
    rows = differing = 0
    first = None
    for table in projection.tables:
        with aside.rows(table) as made:
            counted = Counted(made)
            for key, _ in differences(_stored(snapshot, table), counted):
                differing += 1
                first = first or f"{table.name}: {aside.name_of(table, key)}"
            rows += counted.count
    return Finding(projection.name, rows, differing, first, _is_stale(snapshot, projection, size))


def _stored(snapshot: Snapshot, table: Table) -> Rows:
    return snapshot.rows(database_name(table))


def _is_stale(snapshot: Snapshot, projection: Projection, size: int) -> bool:
    """Whether it is of an older rule, or behind the log. Raises StoreError for a newer one."""
    key = PROJECTION_PREFIX + projection.name.encode()
    stored = snapshot.stored(META, key)
    if stored is None:
        return True
    try:
        version, checkpoint = decode_progress(unseal(key, stored, META))
    except Corrupt:
        return True  # as it does not say what it is, it is made to
    if version > projection.version:
        raise StoreError(f"{projection.name} has version {version}, this eventjobs knows {projection.version}")
    return (version, checkpoint) != (projection.version, size)
