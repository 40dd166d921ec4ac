"""What was erased is nowhere any more: in no backup, export, archive or restored store made afterwards, and after
`compact` in no file of the store. The bytes are searched, as LMDB keeps what lay on a page behind what lies there now.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventjobs.cli.main import cli
from eventjobs.domain.commands import RETENTION, Command, Erase
from eventjobs.domain.content import Content
from eventjobs.domain.job import Job, State
from eventjobs.projections import READ_MODELS
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.processes import CoordinatorProcess

MAP_SIZE = 64 << 20
JOBS, GROUP = 300, 30
SIZES = (20, 300, 2_200, 3_000, 3_600, 9_000)
"""Texts that share a page with others, that have one for themselves, and that have several."""
SECRET = re.compile(rb"(?:payload|result|error)-of-\d{4}")


def live(driver: Driver) -> None:
    """Jobs with a secret in each content; every other one loses them all, by an operator or by rules."""
    for first in range(0, JOBS, GROUP):
        now = b.at(first)
        numbers = {b.an_id(number): number for number in range(first, first + GROUP)}
        driver.execute(*[b.enqueue(each, payload=content("payload", n), now=now) for each, n in numbers.items()])
        leased = driver.lease(b.lease(now=now), limit=GROUP)
        driver.execute(*[settled(job, numbers[job.id], now) for job in leased])
        gone = list(numbers.items())[::2]
        for part in range(3):
            driver.execute(*[erased(job_id, number // 2 % 3, now) for job_id, number in gone[part::3]])


def content(what: str, number: int) -> Content:
    text = f"{what}-of-{number:04}-{'x' * SIZES[(number // 2 + number // GROUP) % len(SIZES)]}"
    return b.content(f'{{"type":"E","message":"{text}"}}' if what == "error" else f'"{text}"', number)


def settled(job: Job, number: int, now: int) -> Command:
    """It gets a result, or the error of a last attempt."""
    if number % 4 < 2:
        return b.complete(job.id, token=job.lease_token, result=content("result", number), now=now)
    return b.fail(job.id, token=job.lease_token, retry=False, error=content("error", number), now=now)


def erased(job_id: str, way: int, now: int) -> Command:
    """By an operator, by a rule for contents, or with the job."""
    by_rule = Erase(job_id=job_id, reason="payloads 7d", now=now, actor=RETENTION)
    return (b.erase(job_id, reason="asked for", now=now), by_rule, b.retire(job_id, now=now))[way]


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Path:
    """A store with an archive, in which half of all contents were erased."""
    data = tmp_path_factory.mktemp("lived") / "data"
    (data / "archive").mkdir(parents=True)
    save_manifest(data / "archive", Manifest(8))
    engine = open_engine(data, READ_MODELS, MAP_SIZE, force_filesystem=True)
    live(Driver(engine))
    with engine.read() as reader:
        jobs = [reader.job(b.an_id(number)) for number in range(JOBS)]
        assert sum(job is None or bool(job.erased) for job in jobs) == JOBS // 2
        assert {job.state for job in jobs if job is not None and job.erased} == {State.SUCCEEDED, State.DEAD}
    while engine.seal(b.at(10**9), lambda: None) or engine.empty():
        pass
    assert engine.archive.end
    engine.close()
    return data


@pytest.fixture
def data(lived, tmp_path) -> Path:
    return shutil.copytree(lived, tmp_path / "data")


def run(*arguments: object) -> None:
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exit_code == 0, done.output


def files(place: Path) -> Iterator[Path]:
    return (path for path in [place, *place.rglob("*")] if path.is_file())


def told(place: Path) -> set[int]:
    """The jobs of which a text is in any file of a place."""
    return {int(found[-4:]) for path in files(place) for found in SECRET.findall(path.read_bytes())}


KEPT = set(range(1, JOBS, 2))


def test_the_bytes_of_a_store_keep_what_was_erased_until_it_is_compacted(data):
    """Before, some are there, or this test would show nothing; afterwards there is no file that has one."""
    assert told(data) > KEPT
    run("compact", "--data", data)
    assert told(data) == KEPT
    run("verify", data)


@pytest.mark.parametrize("way", ["data", "url"])
def test_no_later_copy_has_what_was_erased(data, tmp_path, way):
    """Neither a backup, nor what is restored of it or of the store itself, nor an export and what is made of that."""
    made = tmp_path / "made"
    made.mkdir()
    if way == "data":
        run("backup", made / "backup.mdb", "--data", data, "--quick")
        run("export", "--data", data, "--out", made / "export.jsonl")
        run("import", made / "export.jsonl", "--data", made / "imported")
        run("restore", data, "--data", made / "restored", "--quick")
        run("restore", data, "--data", made / "earlier", "--until", JOBS, "--quick")
    else:
        with CoordinatorProcess(tmp_path) as coordinator:
            run("backup", made / "backup.mdb", "--url", coordinator.url, "--quick")
    for place in made.iterdir():
        assert told(place) <= KEPT, place
        if place.name != "earlier":
            assert told(place) == KEPT, place
