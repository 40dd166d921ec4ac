"""The statistics at a position: from the nearest snapshot in a store, or folded from the beginning of any log."""

from __future__ import annotations

from pathlib import Path

from eventjobs.domain.projection import Rows
from eventjobs.projections import stats
from eventjobs.projections.stats import Statistics, Stats
from eventjobs.projections.stats_past import Past
from eventjobs.store.codec import unseal
from eventjobs.store.contract import Corrupt
from eventjobs.store.lmdb.snapshot import Snapshot, open_snapshot
from eventjobs.store.lmdb.tables import META, PROJECTION_PREFIX, decode_progress
from eventjobs.tools.replay.fold import Fold

CHUNK_RECORDS = 2_000


def numbers_at(store: Path, position: int) -> Stats | None:
    """The statistics as they stood at a position, from the last snapshot before it and the records since.

    None where there is no store with statistics of this code's rule. Raises NoStore or Corrupt.
    """
    with open_snapshot(store) as snapshot:
        if not _up_to_date(snapshot):
            return None
        reader = snapshot.reader([Statistics()])
        try:
            past = stats.past(reader, position)
            _advance(past, reader, position)
        except LookupError as error:
            raise Corrupt(f"{error}; `eventjobs verify` tells more") from error
        return stats.read(past)


def numbers_folded(fold: Fold, position: int) -> Stats:
    """The same from the beginning of a log, with a fold that was not begun."""
    past = Past.empty(stats.COUNTERS)
    for before, record, after in fold.advance(position):
        past.add(record.position, stats.counted(before, record, after))
    return stats.read(past)


def _advance(past: Past, reader: Rows, position: int) -> None:
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
