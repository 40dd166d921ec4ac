"""A store in which nothing is wrong is found sound, however it is looked at, and is left as it was."""

from __future__ import annotations

import random

import pytest

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.domain.events import EVENT_TYPES
from eventjobs.domain.job import Job
from eventjobs.projections import READ_MODELS
from eventjobs.store.indexes import INDEXES
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.tools.verify import fold, tables
from eventjobs.tools.verify.report import Outcome
from eventjobs.tools.verify.verify import verify


def test_the_past_has_everything(rich_store):
    """The store that is damaged in these tests has every event, several blocks of records, and rows in every table."""
    with rich_store.engine() as engine, engine.read() as reader:
        records = reader.records(0, 10_000)
    assert {record.event.type for record in records} == set(EVENT_TYPES)
    assert len(records) > 3 * 256 and len(records) % 256
    with rich_store.raw() as database:
        names = [table.name for projection in (*INDEXES, *READ_MODELS) for table in projection.tables]
        assert [name for name in names if not database(f"projection/{name}").rows()] == []


def test_a_sound_store_is_found_sound(rich_store):
    """Every check is made, has looked at something, and found nothing; the head is the store's."""
    head = rich_store.head()
    report = rich_store.verify(head)
    assert report.outcome is Outcome.SOUND
    assert {check.name: check.faults for check in report.checks if check.faults or check.unchecked} == {}
    assert (report.size, report.first_bad, report.said) == (head.size, None, [])
    named = ["structure", "head", "records", "tree", "kept head", "events", "contents"]
    assert [check.name for check in report.checks] == [*named, *(p.name for p in (*INDEXES, *READ_MODELS))]
    assert [check.name for check in report.checks if not check.facts] == []


def test_the_quick_look_has_its_checks_alone(store):
    """Checksums and tree, and a kept head if there is one."""
    assert [check.name for check in store.verify(quick=True).checks] == ["head", "records", "tree"]
    report = store.verify(store.head(), quick=True)
    assert [check.name for check in report.checks] == ["head", "records", "tree", "kept head"]
    assert report.outcome is Outcome.SOUND


@pytest.mark.parametrize("most", [0, 7, 100])
def test_where_rows_are_kept_makes_no_difference(store, monkeypatch, most):
    """With next to no room in memory, jobs and rows come and go by the scratch store; the report is the same."""
    right = store.verify().document()
    monkeypatch.setattr(fold, "JOBS_IN_MEMORY_MAX", most)
    monkeypatch.setattr(tables.FoldedTables.settle, "__defaults__", (most,))
    assert store.verify().document() == right


def test_an_empty_store_is_sound(tmp_path, new_store):
    """There is nothing in it that could be wrong."""
    empty = new_store(jobs=0)
    report = empty.verify(empty.head())
    assert (report.outcome, report.size) == (Outcome.SOUND, 0)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512])
def test_sizes_around_a_block(new_store, size):
    """A log that ends with a block, or just before or after one, with heads of every size before."""
    store, heads = new_store(jobs=0), []
    with store.engine() as engine:
        driver = Driver(engine)
        for number in range(1, size + 1):
            driver.execute(b.enqueue(b.an_id(number)))
            if number in (1, 2, 255, 256, 257, 300, size):
                with engine.read() as reader:
                    heads.append(reader.head())
    for head in heads:
        assert store.verify(head, quick=True).outcome is Outcome.SOUND
    assert store.verify().outcome is Outcome.SOUND


def test_a_copy_of_the_file_is_enough(store, tmp_path):
    """A backup that is one file, under any name, in a directory that it shares with others."""
    copy = tmp_path / "backup-of-monday"
    copy.write_bytes(store.file.read_bytes())
    report = verify(copy, None, False, lambda *_: None)
    assert (report.outcome, report.size) == (Outcome.SOUND, store.head().size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup-of-monday", "data"]


def test_progress_goes_from_nothing_to_all(store):
    """Each part says how much of it is done; the log and the tables end with all of it."""
    told: dict[str, list[tuple[int, int]]] = {}
    verify(store.directory, None, False, lambda what, done, total: told.setdefault(what, []).append((done, total)))
    assert list(told) == ["structure", "log", "tables"]
    for what in ("log", "tables"):
        dones = [done for done, _ in told[what]]
        assert dones == sorted(dones)
        assert told[what][-1][0] == told[what][-1][1] > 0


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_coordinator_does_is_sound(tmp_path, new_store, seed):
    """Chance says what is asked, by whom and when, now and then a day later; every outcome is found sound."""
    chance = random.Random(seed)
    store = new_store(jobs=0)
    ids = [b.an_id(number) for number in range(1, 41)]
    now = b.at(0)
    with store.engine() as engine:
        for _ in range(120):
            now += chance.choice([0, 1, b.seconds(0.3), b.seconds(20), b.seconds(400), b.seconds(90_000)])
            transaction = engine.begin()
            handler = Handler(transaction, Effects())
            for _ in range(chance.randint(1, 5)):
                ask(handler, chance, transaction.job(job_id := chance.choice(ids)), job_id, now)
            engine.commit()
    assert store.verify().outcome is Outcome.SOUND


def ask(handler: Handler, chance: random.Random, job: Job | None, job_id: str, now: int) -> None:
    """Something of the coordinator, sensible or not."""
    token = job.lease_token if job is not None and chance.random() < 0.8 else chance.randint(1, 4)
    duration = chance.choice([None, b.seconds(0.1), b.seconds(30), b.seconds(86_400)])
    what = chance.randrange(10)
    if job is None:
        schedule = chance.choice([{}, {"delay": chance.randrange(b.seconds(500))}, {"run_at": chance.randrange(now)}])
        content = chance.choice([None, b.content(f'"{token}"', token)])
        key = chance.choice([None, f"key-{chance.randrange(12)}"])
        handler.enqueue([b.enqueue(job_id, now=now, payload=content, idempotency_key=key, max_attempts=2, **schedule)])
    elif what < 4:
        request = chance.choice([None, f"request-{chance.randrange(9)}"])
        handler.lease(b.lease(now=now, duration=duration or b.seconds(60), request_id=request), None, None, token)
    elif what == 4:
        handler.expire(now, 5)
    else:
        said = [
            b.renew(job_id, token=token, duration=duration, now=now),
            b.complete(job_id, token=token, now=now, result=chance.choice([None, b.RESULT])),
            b.fail(job_id, token=token, now=now, roll=chance.random(), retry=chance.random() < 0.7),
            b.fail(job_id, token=token, now=now, delay=chance.randrange(b.seconds(604_800))),
            b.release(job_id, token=token, now=now),
            b.cancel(job_id, now=now),
            b.requeue(job_id, now=now),
        ]
        handler.execute([chance.choice(said)])
