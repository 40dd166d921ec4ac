"""Read models in every engine are the fold of the log, kept in step, and folded anew when their rule changes."""

from __future__ import annotations

from random import Random

import pytest

from eventjobs.projections import READ_MODELS, dead_list, history, listing, stats
from eventjobs.store.contract import StoreError
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.folding import Fold, newer


def lively(driver, seed=1):
    """Some hundred records of 60 jobs: every command, by a fixed seed."""
    random = Random(seed)
    ids = [b.an_id(number) for number in range(60)]
    driver.execute(
        *[
            b.enqueue(
                job_id,
                queue=random.choice("ab"),
                kind=random.choice("xyz"),
                max_attempts=random.choice([1, 2, 5]),
                run_at=b.at(random.choice([-5, 0, 30])),
            )
            for job_id in ids
        ]
    )
    for step in range(40):
        now = b.at(10 + 3 * step)
        jobs = driver.lease(b.lease(now=now, duration=b.seconds(random.choice([5, 60]))), limit=4)
        for job in jobs:
            token = {"token": job.lease_token, "now": now}
            make = random.choice([b.complete, b.fail, b.renew, b.release, None])
            if make is not None:
                driver.execute(make(job.id, **token))
        driver.execute(random.choice([b.cancel, b.requeue, b.requeue])(random.choice(ids), now=now))
        driver.expire(now)
    return driver


def folded(engine) -> Fold:
    """What the records alone make."""
    fold = Fold(READ_MODELS)
    with engine.read() as reader:
        fold.take(reader.records(0, 100_000))
    return fold


def rows_of(fold) -> dict:
    """The read models' rows."""
    return {table.name: list(fold.rows(table)) for table in fold.tables}


def test_rows_are_the_fold_of_the_log(driver, whole):
    """Jobs and every table of every read model come from the records and nothing else."""
    lively(driver)
    kept = whole(driver.engine)
    fold = folded(driver.engine)
    assert kept["rows"] == rows_of(fold)
    assert all(kept["rows"].values()), "a table without rows shows nothing"
    assert len({record.event.type for record in kept["records"]}) == 10
    assert fold.jobs == kept["jobs"]


def test_queries_answer_from_the_engine(driver):
    """Each read model's queries, over the engine, against the jobs themselves."""
    lively(driver)
    with driver.engine.read() as reader:
        records = reader.records(0, 100_000)
        jobs = [reader.job(b.an_id(number)) for number in range(60)]
        newest = sorted(jobs, key=lambda job: -job.spec.position)
        listed = [(job.spec.position, job.id) for job in newest if job.spec.kind == "x"]
        assert listing.page(reader, state=None, kind="x", queue=None, below=None, limit=1000) == listed
        dead = [(job.spec.position, job.id) for job in newest if job.state == "dead"]
        assert dead_list.page(reader, kind=None, queue=None, limit=1000) == dead and dead
        assert dead_list.oldest(reader, kind=None, queue=None, limit=1000) == dead[::-1]
        counted = stats.read(reader)
        assert sum(counted.jobs.values()) == 60 and counted.jobs["dead"] == len(dead)
        assert counted.events["job_leased"] == sum(record.event.type == "job_leased" for record in records)
        for job in jobs:
            own = [record.position for record in records if record.job_id == job.id]
            assert history.positions(reader, job.id) == own and len(own) == job.version


def test_what_is_stored_is_there_again(reopen, whole):
    """Closed and opened anew, everything reads the same and the log goes on."""
    driver = lively(Driver(reopen()))
    before = whole(driver.engine)
    again = Driver(reopen())
    assert whole(again.engine) == before
    (job,) = again.execute(b.enqueue(b.an_id(1000), now=b.at(1000)))
    assert job.spec.position == before["head"].size + 1


def test_a_grown_read_model_is_folded_anew(reopen, whole):
    """A higher version empties the rows and folds them from the first record; the log is as it was."""
    before = whole(lively(Driver(reopen())).engine)
    assert whole(reopen(newer(READ_MODELS))) == before


def test_a_new_read_model_is_folded_from_the_first_record(reopen, whole):
    """Added later, or left out for a while, a read model comes to hold what it would have held."""
    driver = lively(Driver(reopen(READ_MODELS[:2])))
    rows = rows_of(folded(driver.engine))
    assert whole(reopen())["rows"] == rows
    Driver(reopen(READ_MODELS[2:])).execute(b.enqueue(b.an_id(1000), now=b.at(1000)))
    engine = reopen()
    assert whole(engine)["rows"] == rows_of(folded(engine)) != rows


def test_a_read_model_of_a_newer_program_is_refused(reopen):
    """Rows by a rule this program does not know are not overwritten by an older one."""
    lively(Driver(reopen(newer(READ_MODELS))))
    with pytest.raises(StoreError, match="newer"):
        reopen()


def test_a_projection_reads_its_own_counters_as_they_stand(open_engine_again, scripted):
    """In the middle of a commit too: what was added before is in what is read."""
    seen = []

    class Counting(type(scripted)):
        name = "counting"

        def project(self, rows, before, record, after):
            seen.append(dict(rows.rows(self.counts)))
            return [(self.counts, ("n", record.position % 2), 1)]

    driver = Driver(open_engine_again([Counting()]))
    driver.execute(*[b.enqueue(b.an_id(number)) for number in range(3)])
    driver.execute(b.enqueue(b.an_id(3)))
    assert seen == [{}, {("n", 1): 1}, {("n", 0): 1, ("n", 1): 1}, {("n", 0): 1, ("n", 1): 2}]
