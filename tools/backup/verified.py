"""What a backup and a restore have in common: nothing gets its name before it was verified."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StoreError
from eventjobs.store.indexes import INDEXES
from eventjobs.tools.source import SourceHead, open_source
from eventjobs.tools.verify.isolated import Document, Failed, verify_isolated
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import Progress

MADE_ANEW = {projection.name for projection in (*INDEXES, *READ_MODELS)}
"""Checks that may stay undone: tables of an older rule are not compared, as the next start makes them anew."""
FAULTS_SHOWN = 3


class Damaged(StoreError):
    """What was written, or is to be restored, is not sound. The text says what is wrong with it."""


@frozen
class Whole:
    """A file that was verified: its path, its size in bytes, and the head of its log with the time of that."""

    file: Path
    bytes: int
    head: SourceHead


def verified(file: Path, quick: bool, progress: Progress, what: object = None) -> Whole:
    """Verify a file, which messages call `what`. Raises Damaged, and StoreError when it cannot be looked at whole."""
    what = what or file
    try:
        document = verify_isolated(file, None, quick, progress)
    except Failed as error:
        raise StoreError(str(error)) from error
    if document["outcome"] == Outcome.DAMAGED:
        raise Damaged(f"{what} is damaged: {_faults(document)}; `eventjobs verify` says all of it")
    for check in document["checks"]:
        if check["outcome"] == Outcome.UNCHECKED and check["name"] not in MADE_ANEW:
            raise StoreError(f"{what} could not be verified: {check['name']}: {check['unchecked']}")
    with open_source(file) as source:
        return Whole(file, file.stat().st_size, source.head())


def _faults(document: Document) -> str:
    texts = [fault["text"] for check in document["checks"] for fault in check["faults"]]
    more = len(texts) - FAULTS_SHOWN
    return "; ".join(texts[:FAULTS_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
