"""What projections say that they handle."""

from __future__ import annotations

import pytest

from eventjobs.domain.projection import EVERY_EVENT
from eventjobs.projections import READ_MODELS
from eventjobs.store.indexes import INDEXES
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.driver import Driver
from eventjobs.testing.folding import Fold
from eventjobs.testing.past import live, retain

PROJECTIONS = (*INDEXES, *READ_MODELS)


@pytest.fixture(scope="module")
def records():
    """A past with every event."""
    engine = MemoryEngine(READ_MODELS)
    driver = Driver(engine)
    live(driver)
    retain(driver)
    with engine.read() as reader:
        return reader.records(0, 10_000)


def test_of_other_events_nothing_is_asked_for(records):
    """Whoever asks a projection about the events that it handles alone misses no change."""
    assert {type(record.event) for record in records} == set(EVERY_EVENT)
    fold = Fold(PROJECTIONS)
    for record in records:
        before = fold.jobs.get(record.job_id)
        fold.take([record])
        for projection in PROJECTIONS:
            if type(record.event) not in projection.handles:
                assert list(projection.project(fold, before, record, fold.jobs[record.job_id])) == []
