"""Making a data directory of a backup: as it is, or up to an earlier point of its log.

All is made in a directory within the new one, under its coordinator's lock, and the store gets its name last: a restore
that was interrupted leaves no store, and the next one begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from attrs import frozen

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.domain.commands import Actor, Cancel, Command, Erase
from eventjobs.domain.events import ContentsErased, JobRetired, erased_positions
from eventjobs.domain.points import Point
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive import ARCHIVE_DIRECTORY, Archive
from eventjobs.store.contract import Engine, StoreError
from eventjobs.store.ingest import ingest
from eventjobs.store.lmdb import open_engine
from eventjobs.store.lmdb.anew import write_anew
from eventjobs.store.lmdb.datafile import DATA_FILE
from eventjobs.store.lmdb.snapshot import data_file, in_use, open_snapshot
from eventjobs.store.lmdb.unsealing import unseal_into
from eventjobs.tools.backup.verified import Damaged, Whole, verified
from eventjobs.tools.newstore import place_for_store, put
from eventjobs.tools.points import position_in
from eventjobs.tools.source import Source, open_source
from eventjobs.tools.verify.verify import Progress

JOBS_OF_A_COMMIT = 500


@frozen
class Restored:
    """The store that was made, how many records of the backup it has, and of how many jobs it had to record that their
    contents are gone."""

    whole: Whole
    records: int
    erased_jobs: int


def restore(
    backup: Path, directory: Path, until: Point | None, quick: bool, actor: Actor, progress: Progress
) -> Restored:
    """Make a store in a directory that is empty, or not there. Raises Damaged, StoreError and OSError.

    The backup is only read, and verified before anything is taken from it. `actor` is in the records that are new.
    """
    file = data_file(backup)
    if in_use(file):
        raise StoreError(f"a coordinator has {file} open; take a backup of it, and restore that")
    with place_for_store(directory) as work:
        of_backup = verified(file, quick, progress)
        if until is None:
            _copy(file, work / DATA_FILE, progress)
            records, erased_jobs = of_backup.head.size, 0
        else:
            records, erased_jobs = _replay(file, work, until, actor, progress)
        copied = until is None  # what was verified in full need not be again
        whole = verified(work / DATA_FILE, quick or copied, progress, backup)
        if copied and whole.head != of_backup.head:
            raise Damaged(f"{file} was changed while it was read")
        return Restored(Whole(put(work), whole.bytes, whole.head), records, erased_jobs)


def _copy(file: Path, made: Path, progress: Progress) -> None:
    """All rows, and the records that a store has in an archive beside it alone; no bytes of what is gone."""
    with open_snapshot(file) as snapshot:
        write_anew(snapshot, made, lambda rows, total: progress("copy", rows, total))
    if file.name == DATA_FILE:
        archive = Archive(file.with_name(ARCHIVE_DIRECTORY))
        unseal_into(made, archive, lambda done, total: progress("archive", done, total))


def _replay(file: Path, work: Path, until: Point, actor: Actor, progress: Progress) -> tuple[int, int]:
    """Make a store of the first records, as they are, with their contents; everything else follows from them. How many
    records that are, and of how many jobs the contents were erased later."""
    with open_source(file) as source:
        size = position_in(source, until)
        with open_snapshot(file) as snapshot:
            root = snapshot.reader().root(size)
        engine = open_engine(work, READ_MODELS)
        try:
            head = ingest(engine, islice(source.entries(), size), lambda done: progress("records", done, size))
            if (head.size, head.root) != (size, root):
                raise Damaged(f"{file} is damaged: its first {size:,} records are not those that its tree stands for")
            reason = f"restored up to position {size}, before this was erased"
            return size, _record_erasures(engine, _erased_since(source, size), reason, actor)
        finally:
            engine.close()


def _erased_since(source: Source, size: int) -> Iterator[str]:
    """The jobs of which a content that the first records brought was erased by a later record."""
    for record in source.records(after=size):
        event = record.event
        if isinstance(event, ContentsErased | JobRetired) and any(place <= size for place in erased_positions(event)):
            yield record.job_id


def _record_erasures(engine: Engine, job_ids: Iterable[str], reason: str, actor: Actor) -> int:
    """Record of jobs that their contents are gone, and cancel those that had not ended: nothing is left to run them
    with. How many jobs it were."""
    waiting, count = iter(job_ids), 0
    while chunk := list(islice(waiting, JOBS_OF_A_COMMIT)):
        effects = Effects()
        handler = Handler(engine.begin(), effects)
        try:
            handler.execute(_commands(chunk, reason, actor))
        except BaseException:
            engine.abort()
            raise
        engine.commit()
        count += sum(isinstance(event, ContentsErased) for _, event, _ in effects.appended)
    return count


def _commands(job_ids: Sequence[str], reason: str, actor: Actor) -> list[Command]:
    """A job that has ended refuses to be canceled, and is erased all the same."""
    now = time.time_ns() // 1_000
    commands: list[Command] = []
    for job_id in job_ids:
        commands.append(Cancel(job_id=job_id, reason=reason, now=now, actor=actor))
        commands.append(Erase(job_id=job_id, reason=reason, now=now, actor=actor))
    return commands
