"""Two stores with the same life, one of which moves its old records away when it may: nobody can tell them apart."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from eventjobs.projections import READ_MODELS, history, stats
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.lmdb import LmdbEngine, open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

MAP_SIZE = 64 << 20
STEPS = 60


class Moving:
    """The store with an archive, whose segments have 256 records."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "archive").mkdir(parents=True)
        save_manifest(directory / "archive", Manifest(8))
        self.driver = self._opened()

    def _opened(self) -> Driver:
        return Driver(open_engine(self.directory, READ_MODELS, MAP_SIZE, force_filesystem=True))

    @property
    def engine(self) -> LmdbEngine:
        return self.driver.engine

    def step(self, random: Random, now: int) -> None:
        """One of the things that must make no difference."""
        match random.randrange(4):
            case 0:
                self.engine.seal(now - b.seconds(random.choice([0, 10, 60])), lambda: None)
            case 1 | 2:
                self.engine.empty()
            case 3:
                self.engine.close()
                self.driver = self._opened()


def live(driver: Driver, random: Random, ids: range, now: int) -> None:
    """A while in the life of a store."""
    driver.execute(*[b.enqueue(b.an_id(number), max_attempts=1 + number % 3, now=now) for number in ids])
    jobs = driver.lease(b.lease(now=now, request_id=f"r-{now}"), limit=random.randrange(1, 30))
    for job in jobs:
        make = random.choice([b.complete, b.fail, b.release, b.cancel, None])
        if make is b.cancel:
            driver.execute(make(job.id, now=now))
        elif make is not None:
            driver.execute(make(job.id, token=job.lease_token, now=now))
    driver.expire(now - b.seconds(20))


def answers(engine: LmdbEngine, places: list[int]) -> list[object]:
    """What is asked of both; `places` are positions anywhere in the log."""
    with engine.read() as reader:
        size = reader.head().size
        found: list[object] = [reader.head(), stats.read(reader)]
        for place in places:
            position = place % size + 1
            record = reader.record(position)
            found += [record, reader.record_text(position), reader.records(position - 1, 300), reader.root(position)]
            found += [reader.inclusion_proof(position, size), reader.consistency_proof(position, size)]
            found += [reader.job(record.job_id), history.positions(reader, record.job_id)]
        return found


@pytest.mark.parametrize("seed", range(1 if os.environ.get("EVENTJOBS_PROFILE", "quick") == "quick" else 20))
def test_an_archive_makes_no_difference(tmp_path, seed):
    """After each step, whatever is asked."""
    random = Random(seed)
    moving = Moving(tmp_path / "moving")
    still = Driver(open_engine(tmp_path / "still", READ_MODELS, MAP_SIZE, force_filesystem=True))
    begin = 0
    for step in range(STEPS):
        ids, life = range(begin, begin + random.randrange(1, 40)), random.randrange(2**32)
        begin = ids.stop
        now = b.at(5 * step)
        for driver in (still, moving.driver):
            live(driver, Random(life), ids, now)
        moving.step(random, now)
        places = [random.randrange(2**32) for _ in range(3)] + [0, 255, 256]
        assert answers(moving.engine, places) == answers(still.engine, places)
    assert moving.engine.archive.end >= 512
    still.engine.close()
    moving.engine.close()
