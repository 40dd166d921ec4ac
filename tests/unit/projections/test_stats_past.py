"""The statistics of the past: at every position what they were when that position was the newest."""

from __future__ import annotations

import random

import pytest

from eventjobs.projections import READ_MODELS, stats, stats_past
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver


def lived(engine: MemoryEngine, seed: int, steps: int = 120) -> list[stats.Stats]:
    """A log with every event, one commit a step; the statistics after each position."""
    chance, driver = random.Random(seed), Driver(engine)
    ids, seen, now = [], [], b.at(0)

    def look() -> None:
        with engine.read() as reader:
            if reader.head().size > len(seen):
                seen.append(stats.read(reader))

    for step in range(steps):
        now += b.seconds(chance.choice([0.01, 1, 40]))
        if not ids or chance.random() < 0.3:
            ids.append(b.an_id(step))
            delay = b.seconds(20) if chance.random() < 0.2 else None
            driver.execute(
                b.enqueue(ids[-1], queue=f"q{step % 2}", kind=f"k{step % 3}", delay=delay, max_attempts=2, now=now)
            )
        elif chance.random() < 0.4:
            driver.lease(b.lease(now=now))
        elif chance.random() < 0.1:
            driver.expire(now, 1)
        else:
            with engine.read() as reader:
                job = reader.job(chance.choice(ids))
            word = chance.choice([b.renew, b.renew, b.complete, b.fail, b.release])
            command = word(job.id, token=job.lease_token, now=now) if job.lease else b.cancel(job.id, now=now)
            driver.execute(b.requeue(job.id, now=now) if job.state == "dead" else command)
        look()
    return seen


@pytest.mark.parametrize("every", [2, 7, 16, 1_000])
def test_every_position_is_what_it_was(every, monkeypatch):
    """Whatever the distance of the snapshots: each counter, at each position, is the one that was stored then."""
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", every)
    engine = MemoryEngine(READ_MODELS)
    seen = lived(engine, every)
    with engine.read() as reader:
        records = reader.records(0, 10_000)
        assert len(records) == len(seen) and len({record.event.type for record in records}) >= 8
        for position, then in enumerate(seen, 1):
            past = stats.past(reader, position)
            assert position - past.base <= every
            stats.advance(past, reader, records[past.base : position])
            assert (past.position, stats.read(past)) == (position, then)


def test_jobs_that_do_not_live_across_a_snapshot_leave_nothing(ledger, monkeypatch):
    """Only what happens to a job that came before the snapshot is carried, and a renewal moves nothing."""
    monkeypatch.setattr(stats_past, "SNAPSHOT_RECORDS", 4)
    ledger.record(b.an_id(1), b.enqueued(), b.leased(), time=b.at(0))
    ledger.record(b.an_id(2), b.enqueued(), b.leased(), time=b.at(0))
    assert list(ledger.rows.rows(stats_past.CARRIED)) == list(ledger.rows.rows(stats_past.SNAPSHOTS)) == []
    ledger.record(b.an_id(3), b.enqueued(), b.leased(), b.completed(), time=b.at(1))
    assert [key for key, _ in ledger.rows.rows(stats_past.SNAPSHOTS)] == [(4,)]
    assert list(ledger.rows.rows(stats_past.CARRIED)) == []
    ledger.record(b.an_id(1), b.renewed(), b.completed(), time=b.at(2))
    assert [key for key, _ in ledger.rows.rows(stats_past.CARRIED)] == [(8, b.an_id(1))]
