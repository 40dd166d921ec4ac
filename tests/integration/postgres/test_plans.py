"""How the database comes to its rows: by which index."""

from __future__ import annotations

from eventjobs.store.postgres.loading import DUE, EXPIRED


def test_a_look_for_leases_that_ran_out_passes_over_none_that_run(make_instance, foreign):
    """The time is known before the index is entered."""
    make_instance()
    foreign.execute("SET enable_seqscan = off")
    plan = [row[0].strip() for row in foreign.execute(f"EXPLAIN {EXPIRED.format(due=DUE) % 9}")]
    assert any(line.startswith("Index Cond: (expires_at <=") for line in plan)
    assert not any(line.startswith("Filter: (expires_at") for line in plan)
