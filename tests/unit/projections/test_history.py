"""Histories of jobs."""

from __future__ import annotations

from eventjobs.projections import history
from eventjobs.testing import builders as b


def test_a_history_lists_positions_by_version(ledger):
    """Positions of one job's records, in order, however other jobs' records lie between."""
    for event in [b.enqueued(), b.leased(), b.renewed(), b.completed()]:
        ledger.record(b.an_id(1), event, time=b.at(1))
        ledger.record(b.an_id(2), event, time=b.at(1))
    assert history.positions(ledger.rows, b.an_id(1)) == [1, 3, 5, 7]
    assert history.positions(ledger.rows, b.an_id(2)) == [2, 4, 6, 8]
    assert history.positions(ledger.rows, b.an_id(2), after_version=1, limit=2) == [4, 6]
    assert history.positions(ledger.rows, b.an_id(2), after_version=4) == []
    assert history.positions(ledger.rows, b.an_id(3)) == []
