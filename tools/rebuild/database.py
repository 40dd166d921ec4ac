"""Comparing the projections of a store in a database with what its log makes, and putting right what differs.

They are made aside, on this machine, from the log as it was when that began. A rebuild then keeps everybody from
writing, goes on to the log's end, and compares and puts right in that transaction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from eventjobs.cli.progress import Tell
from eventjobs.cli.stores import Database
from eventjobs.domain.projection import Projection
from eventjobs.store.indexes import JobRows
from eventjobs.store.lmdb.aside import Aside, differences
from eventjobs.store.postgres.alone import alone
from eventjobs.store.postgres.connection import Session
from eventjobs.store.postgres.outside import Outside
from eventjobs.tools.rebuild.findings import Counted, Finding
from eventjobs.tools.rebuild.rows import OF_JOBS, comparisons

CHANGED_ROWS = 1_000
"""Rows that are put right in one round trip."""


def check(place: Database, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    """Compare, and change nothing, beside coordinators or without. Raises StoreError, Away among them."""
    with _aside(projections) as aside, place.outside() as store:
        aside.fold(store, lambda done, total: tell("log", done, total))
        return _findings(store, aside, projections, tell)


def rebuild(place: Database, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    """Make projections anew aside, compare, and put right what differs in one transaction, which coordinators wait for.

    Brings the store up to this program first, as a coordinator's start does. Raises StoreError, Away among them, when
    it cannot be done; then nothing was changed.
    """
    place.open().close()
    with _aside(projections) as aside:
        with place.outside() as store:
            aside.fold(store, lambda done, total: tell("log", done, total))
        with alone(place.url) as store:
            aside.fold(store, lambda done, total: tell("log", done, total))
            findings = _findings(store, aside, projections, tell)
            for projection, finding in zip(projections, findings, strict=True):
                if not finding.same:
                    _put_right(store.session, aside, projection)
    return findings


@contextmanager
def _aside(projections: Sequence[Projection]) -> Iterator[Aside]:
    """Jobs are made whenever columns of theirs are compared."""
    with tempfile.TemporaryDirectory(prefix="eventjobs-rebuild-") as directory:
        made = {each.name: each for each in projections}
        if OF_JOBS.keys() & made.keys():
            made.setdefault(JobRows.name, JobRows())
        with Aside(Path(directory), tuple(made.values())) as aside:
            yield aside


def _findings(store: Outside, aside: Aside, projections: Sequence[Projection], tell: Tell) -> list[Finding]:
    findings = []
    for number, projection in enumerate(projections):
        tell("tables", number, len(projections))
        findings.append(_finding(store, aside, projection))
    tell("tables", len(projections), len(projections))
    return findings


def _finding(store: Outside, aside: Aside, projection: Projection) -> Finding:
    rows = differing = 0
    first = None
    for comparison in comparisons(store.session, aside, projection):
        made = Counted(comparison.made)
        for key, _ in differences(comparison.stored, made):
            differing += 1
            first = first or f"{comparison.table.name}: {aside.name_of(comparison.table, key)}"
        rows += made.count
    return Finding(projection.name, rows, differing, first, not store.keeps(projection))


def _put_right(session: Session, aside: Aside, projection: Projection) -> None:
    for comparison in comparisons(session, aside, projection):
        found = differences(comparison.stored, comparison.made)
        while some := list(islice(found, CHANGED_ROWS)):
            session.write(comparison.putting(some))
