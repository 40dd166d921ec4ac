"""The statistics at a position: from the nearest snapshot in a store, or folded from the beginning of any log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from eventjobs.cli.stores import Database
from eventjobs.domain.events import Record
from eventjobs.domain.projection import Rows
from eventjobs.projections import stats
from eventjobs.projections.stats import Statistics, Stats
from eventjobs.projections.stats_past import Past
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.snapshot import Snapshot, open_snapshot
from eventjobs.store.lmdb.tables import META, PROJECTION_PREFIX, decode_progress
from eventjobs.tools.replay.fold import Fold
from eventjobs.tools.transfer.lines import is_export

CHUNK_RECORDS = 2_000


class LogAndRows(Rows, Protocol):
    """What statistics of the past are read from."""

    def records(self, after: int, limit: int) -> list[Record]:
        """Up to `limit` records with positions above `after`, in order."""


def numbers_at(place: Path | Database, position: int) -> Stats | None:
    """The statistics as they stood at a position, from the last snapshot before it and the records since.

    None where there are no statistics of this code's rule, as in an export. Raises NoStore or Corrupt.
    """
    with _kept(place) as reader:
        if reader is None:
            return None
        try:
            past = stats.past(reader, position)
            _advance(past, reader, position)
        except LookupError as error:
            raise Corrupt(f"{error}; `eventjobs verify` tells more") from error
        return stats.read(past)


@contextmanager
def _kept(place: Path | Database) -> Iterator[LogAndRows | None]:
    if isinstance(place, Database):
        with place.outside([Statistics()]) as store:
            yield store if store.keeps(Statistics()) else None
    elif is_export(place):
        yield None
    else:
        with open_snapshot(place) as snapshot:
            yield snapshot.reader([Statistics()]) if _up_to_date(snapshot) else None


def numbers_folded(fold: Fold, position: int) -> Stats:
    """The same from the beginning of a log, with a fold that was not begun."""
    past = Past.empty(stats.COUNTERS)
    for before, record, after in fold.advance(position):
        past.add(record.position, stats.counted(before, record, after))
    return stats.read(past)


def _advance(past: Past, reader: LogAndRows, position: int) -> None:
    while past.position < position:
        records = reader.records(past.position, min(CHUNK_RECORDS, position - past.position))
        stats.advance(past, reader, records)


def _up_to_date(snapshot: Snapshot) -> bool:
    """Whether the statistics are of this code's rule, and of the whole log."""
    key = PROJECTION_PREFIX + Statistics.name.encode()
    stored = snapshot.stored(META, key)
    if stored is None:
        return False
    return decode_progress(unseal(key, stored, META)) == (Statistics.version, snapshot.reader().head().size)
