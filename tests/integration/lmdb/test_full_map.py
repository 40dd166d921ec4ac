"""A store that reaches the bound of its map: refused in time, in order, and never stuck."""

from __future__ import annotations

import pytest

from eventjobs.domain.job import State
from eventjobs.store.contract import HOLDING, StorageFull
from eventjobs.store.indexes import READY
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

MAP = 8 << 20
PAYLOAD = b.content('"' + "x" * 100_000 + '"')
PAGEFUL = b.content('"' + "x" * 3_000 + '"')
"""Fits in any page that was let go, while a larger one needs pages that follow each other."""


def fill(store, payload=PAYLOAD) -> int:
    """Enqueue jobs as long as the engine says that there is room; how many it were."""
    count = 0
    while store.engine.room_for_new_work():
        store.enqueue(payload=payload)
        count += 1
    return count


def overfill(store) -> None:
    """Enqueue jobs, small and smaller, until not one fits: the reserve is gone too."""
    for payload in (PAYLOAD, PAGEFUL, None):
        with pytest.raises(StorageFull, match=r"map .*is full.*--map-size"):
            again(store.enqueue, payload=payload)


def again(step, **members) -> None:
    """Do it until it raises."""
    for _ in range(10_000):
        step(**members)


def test_new_work_is_refused_while_there_is_a_reserve(store):
    """The engine says that there is no room before the map is full."""
    engine = store.open(map_size=MAP)
    count = fill(store)
    assert 30 < count < MAP // 100_000
    assert not engine.room_for_new_work()


def test_a_full_store_takes_new_jobs_again_once_others_are_retired(store):
    """What has ended is retired in the reserve; the room it leaves is used again, and kept for finishing as before."""
    store.open(map_size=MAP)
    first = fill(store)
    finish(store, first)
    fill(store)
    assert not store.engine.room_for_new_work()
    with store.engine.read() as reader:
        ids = [job_id for lane, _ in reader.ending_lanes(HOLDING) for job_id in reader.ended(lane, b.at(10_000), first)]
    assert len(ids) == first
    retired = Driver(store.engine).execute(*(b.retire(job_id, now=b.at(10_000)) for job_id in ids))
    assert all(job.retired for job in retired)
    assert first < fill(store, PAGEFUL)
    with store.engine.read() as reader:
        waiting = sum(1 for _ in reader.rows(READY))
    finish(store, waiting)


def finish(store, count: int) -> None:
    """Lease and complete jobs, one by one, each in commits of its own."""
    for _ in range(count):
        (job,) = store.lease(now=b.at(10_000))
        (done,) = store.execute(b.complete(job.id, now=b.at(10_000)))
        assert done.state is State.SUCCEEDED


def test_the_work_that_is_in_can_be_finished_in_the_reserve(store):
    """When new jobs are refused, every job that is in can still be leased and completed, one by one."""
    store.open(map_size=MAP)
    count = fill(store)
    for number in range(count):
        (job,) = store.lease(now=b.at(10 + number))
        (done,) = store.execute(b.complete(job.id, now=b.at(10 + number)))
        assert done.state is State.SUCCEEDED


def test_a_put_that_finds_no_room_leaves_nothing_and_breaks_nothing(store):
    """After StorageFull the store is as it was, reads are served, and the same engine goes on with what fits."""
    engine = store.open(map_size=MAP)
    overfill(store)
    with engine.read() as reader:
        size, root = reader.head().size, reader.head().root
        job = reader.record(size).job_id
        assert reader.record(size + 1) is None and reader.job(b.an_id(store.jobs)) is None
    for _ in range(3):
        with pytest.raises(StorageFull):
            store.enqueue(payload=PAYLOAD)
    with engine.read() as reader:
        assert (reader.head().size, reader.head().root) == (size, root)
        assert reader.job(job).state is State.QUEUED


def test_a_full_store_goes_on_with_a_larger_map(store):
    """What the error says helps: opened with a larger map, the store takes work again, nothing is lost."""
    store.open(map_size=MAP)
    overfill(store)
    with store.engine.read() as reader:
        head = reader.head()
    with store.open(map_size=2 * MAP).read() as reader:
        assert reader.head() == head
    assert store.engine.room_for_new_work()
    assert store.enqueue(payload=PAYLOAD).spec.position == head.size + 1


def test_a_full_store_can_be_opened(store):
    """A store without any room opens with the same map, for reading and for finishing."""
    store.open(map_size=MAP)
    overfill(store)
    with store.open(map_size=MAP).read() as reader:
        assert reader.head().size > 30
    assert not store.engine.room_for_new_work()


def test_a_map_smaller_than_the_store_loses_nothing(store):
    """A store that has grown beyond the map asked for opens, and takes no new work."""
    store.open(map_size=MAP)
    fill(store)
    with store.engine.read() as reader:
        head = reader.head()
    with store.open(map_size=1 << 20).read() as reader:
        assert reader.head() == head
    assert not store.engine.room_for_new_work()


def test_no_room_for_a_rebuild_is_an_error_of_the_store(store):
    """A projection that must be made anew in a full store stops the opening, with a text that says what helps."""
    store.open((), map_size=MAP)
    overfill(store)
    with pytest.raises(StorageFull, match="--map-size"):
        store.open(map_size=MAP)
    with store.open(map_size=2 * MAP).read() as reader:
        assert reader.head().size > 30


@pytest.mark.parametrize("step", ["lease", "complete", "cancel", "requeue"])
def test_no_step_meets_a_full_map_in_another_way(store, step):
    """Whatever command finds the map full, the answer is StorageFull."""
    store.open(map_size=1 << 20)
    steps = {
        "lease": lambda: store.lease(),
        "complete": lambda: store.execute(b.complete(running.id, result=PAYLOAD)),
        "cancel": lambda: store.execute(b.cancel(b.an_id(2), reason="r" * 1_000)),
        "requeue": lambda: store.execute(b.requeue(dead.id)),
    }
    store.enqueue(priority=9)
    store.enqueue(priority=8, max_attempts=1)
    running, dead = store.lease(max_jobs=2)
    store.execute(b.fail(dead.id))
    for _ in range(5):
        store.enqueue(payload=None)
    overfill(store)
    with pytest.raises(StorageFull):
        again(lambda: (steps[step](), store.enqueue(payload=None)))
