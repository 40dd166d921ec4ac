"""A disk that fails, at any of the calls of a commit and in any way: nothing acknowledged is lost, nothing refused is
there, and what is unknown is told by asking again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from eventjobs.cli import exits
from eventjobs.testing.ledger import Crowd, crowd_at
from eventjobs.testing.processes import CoordinatorProcess, wait_for

PROGRAM_SECONDS_MAX = 120

COMMITS = """
    # One commit on one store, again and again: it fails at its first call, at its second, and so on, in each way.
    import json, os, random, shutil, sys, uuid
    from pathlib import Path

    from conftest import FAILURES, Shim
    from eventjobs.coordinator.effects import Effects
    from eventjobs.coordinator.handler import Handler
    from eventjobs.projections import READ_MODELS
    from eventjobs.store.contract import Failed, OutcomeUnknown, StorageFull
    from eventjobs.store.lmdb import open_engine
    from eventjobs.testing import builders as b
    from eventjobs.testing.ledger import check_integrity

    directory, failures, commits = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    shim = Shim(Path(os.environ["LD_PRELOAD"]), Path(os.environ["EVENTJOBS_SHIM"]))

    def opened():
        return open_engine(directory, READ_MODELS, 64 << 20, force_filesystem=True)

    def change(engine, seed):
        # a few jobs come in, a few are leased and completed: pages all over the file
        chance = random.Random(seed)
        handler = Handler(engine.begin(), Effects())
        for size in (10, 700, 9_000):
            job_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            text = '"' + "x" * size + '"'
            handler.enqueue([b.enqueue(job_id, payload=b.content(text), idempotency_key=job_id)])
        jobs = handler.lease(b.lease(request_id=str(seed)), None, None, 3).jobs
        handler.execute([b.complete(job.id, token=job.lease_token, result=b.content()) for job in jobs[:2]])
        engine.commit()

    def head(engine, check=False):
        with engine.read() as reader:
            if check:
                check_integrity(reader)
            return reader.head()

    def told_readers(engine):
        # whoever reads now meets the store as it was before, or is told that it failed
        try:
            assert head(engine) == before
        except Failed:
            pass

    def attempt(failure, number):
        # how many calls failed, the sort of the first, what was said of the commit, and whether it is there
        shutil.copy(directory / "kept", directory / "data.mdb")
        engine = opened()
        shim.arm(FAILURES[failure], number)
        try:
            change(engine, commits)
            said = "done"
        except StorageFull:
            said = "full"
        except OutcomeUnknown:
            said = "unknown"
        shim.disarm()
        if said == "unknown":
            told_readers(engine)
            engine.close()
            engine = opened()
        there = head(engine, check=True)
        assert there in (before, after), "half of a commit"
        if there == before:
            change(engine, commits)
            assert head(engine) == after, "it could not be done again"
        engine.close()
        return shim["failed"], shim.kinds[number - 1 : number], said, there == after

    engine = opened()
    for seed in range(commits):
        change(engine, seed)
    before = head(engine)
    engine.close()
    shutil.copy(directory / "data.mdb", directory / "kept")
    engine = opened()
    change(engine, commits)
    after = head(engine)
    engine.close()
    told = []
    for failure in failures:
        number = 1
        while (attempted := attempt(failure, number))[0]:
            told.append((failure, *attempted[1:]))
            number += 1
        assert attempted[2:] == ("done", True)
    print(json.dumps(told))
"""


OPENINGS = """
    # A store that is made, or whose projections are folded anew, while the disk fails; then it is opened again.
    import json, os, shutil, sys
    from pathlib import Path

    from conftest import FAILURES, Shim
    from eventjobs.projections import READ_MODELS
    from eventjobs.store.contract import StoreError
    from eventjobs.store.lmdb import open_engine
    from eventjobs.testing import builders as b
    from eventjobs.testing.ledger import check_integrity

    directory, failures = Path(sys.argv[1]), json.loads(sys.argv[2])
    shim = Shim(Path(os.environ["LD_PRELOAD"]), Path(os.environ["EVENTJOBS_SHIM"]))

    def opened(read_models=READ_MODELS):
        return open_engine(directory, read_models, 64 << 20, force_filesystem=True)

    def attempt(prepare, failure, number):
        prepare()
        shim.arm(FAILURES[failure], number)
        try:
            opened().close()
            said = "done"
        except StoreError as error:
            said = "refused"
        shim.disarm()
        failed, kind = shim["failed"], shim.kinds[number - 1 : number]
        engine = opened()
        with engine.read() as reader:
            check_integrity(reader)
            size = reader.head().size
        engine.close()
        return failed, kind, said, size

    def nothing():
        shutil.rmtree(directory, ignore_errors=True)

    def out_of_date():
        shutil.copy(kept, directory / "data.mdb")

    nothing()
    engine = opened(())  # without read models, so that the next opening makes them
    for number in range(5):
        engine.begin().append(None, b.enqueued(), b.an_id(number), b.START, b.PRODUCER_ACTOR, b.content())
        engine.commit()
    engine.close()
    kept = directory.with_name("kept")
    shutil.copy(directory / "data.mdb", kept)
    told = []
    for failure in failures:
        for prepare in nothing, out_of_date:
            number = 1
            while (attempted := attempt(prepare, failure, number))[0]:
                told.append((prepare.__name__, *attempted[1:]))
                number += 1
            assert attempted[2] == "done"
    print(json.dumps(told))
"""


def told_by(program: str, shim, *arguments: object) -> Counter:
    """Run a program whose disk is the shim's, and count what it tells in its last line."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        env={**os.environ, **shim.environment, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Counter(tuple(each) for each in json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def commits(profile: str) -> int:
    """How many commits a store has seen before the one that fails: the more, the more pages that one changes."""
    return {"quick": 4, "ci": 30, "deep": 200}[profile]


def test_a_commit_fails_at_any_of_its_calls(shim, failures, tmp_path, commits):
    """No space before the head is written: refused, nothing is there, and the same engine goes on. Anything else:
    unknown, and after opening again the commit is there as a whole or not at all. It is never called done."""
    told = told_by(COMMITS, shim, tmp_path / "data", json.dumps(list(failures)), commits)
    for name, kind, said, _ in told:
        assert said == ("full" if failures[name].is_no_space(kind) else "unknown"), (name, kind)
    assert {(name, kind) for name, kind, _, _ in told} == {(name, kind) for name in failures for kind in "wsm"}
    assert [(name, kind) for name, kind, _, there in told if there] == [("done, then EIO from then on", "m")]


def test_an_opening_fails_at_any_of_its_calls(shim, failures, tmp_path, profile):
    """A store that is made or rebuilt on a disk that fails is refused as an error of the store, and the next opening,
    on a disk that works, finds all that was there."""
    names = list(failures) if profile != "quick" else ["EIO", "half"]
    told = told_by(OPENINGS, shim, tmp_path / "data", json.dumps(names))
    sizes = {"nothing": 0, "out_of_date": 5}
    assert {(what, said, size) for what, _, said, size in told} == {(what, "refused", sizes[what]) for what in sizes}
    assert {(what, kind) for what, kind, _, _ in told} == {(what, kind) for what in sizes for kind in "wsm"}


# Under load ---------------------------------------------------------------------------------------------------------

QUICK = [
    ("EIO", "s", 1),
    ("ENOSPC", "w", 1),
    ("ENOSPC from then on", "s", 1),
    ("half", "w", 2),
    ("ENOSPC", "m", 1),
    ("done, then EIO from then on", "m", 1),
]
"""Ways to fail, the kind of calls that is counted, and which of them fails first."""
CALLS_MAX = 30
"""More than a commit under this load makes, most of the time."""
ACKNOWLEDGED_BETWEEN = 50


@pytest.fixture
def plan(failures, profile) -> list[tuple[str, str, int]]:
    """Failures in the order in which they happen."""
    if profile == "quick":
        return QUICK
    calls = range(1, CALLS_MAX + 1) if profile == "deep" else (1, 2, 5)
    return [
        *QUICK,
        *((name, "", number) for number in calls for name in failures),
        *((name, only, 1) for name in failures for only in "sm"),
    ]


async def until(look, what: str) -> None:
    """Wait for a thing, letting the crowd go on."""
    await asyncio.to_thread(wait_for, look, what)


async def fail_and_go_on(coordinator: CoordinatorProcess, crowd: Crowd, shim, failure, only: str, number: int) -> str:
    """Let the disk fail, see the coordinator do what it must, and let both go on. Returns the kind of call it met."""
    await crowd.grown_by(ACKNOWLEDGED_BETWEEN)
    without_room, pid = crowd.without_room, coordinator.process.pid
    shim.arm(failure, number, only)
    await until(lambda: shim["failed"], "the disk to fail")
    kind = only or shim.kinds[number - 1]
    if failure.is_no_space(kind):
        await until(lambda: crowd.without_room > without_room, "a refusal")
        assert coordinator.process.running and coordinator.process.pid == pid
    else:
        assert await asyncio.to_thread(coordinator.process.wait) == exits.COORDINATOR_FAILED
        crowd.up.clear()
        await asyncio.to_thread(_restart, coordinator, shim)
        crowd.up.set()
    shim.disarm()
    return kind


def _restart(coordinator: CoordinatorProcess, shim) -> None:
    shim.disarm()
    coordinator.restart()


async def test_a_coordinator_on_a_disk_that_fails(shim, failures, plan, tmp_path, judge):
    """For want of room it refuses with 507, and goes on when there is some; after any other error it ends with 70 and
    is started again. In the end the log confirms the clients' ledger to the last entry."""
    met = Counter()
    with CoordinatorProcess(tmp_path, environment=shim.environment) as coordinator:
        async with crowd_at(coordinator.url) as crowd:
            for name, only, number in plan:
                met[name, await fail_and_go_on(coordinator, crowd, shim, failures[name], only, number)] += 1
        assert coordinator.stop() == 0
        log = coordinator.process.text()
    assert log.count("the store failed: a commit failed and may or may not be on disk") == sum(
        number for (name, kind), number in met.items() if not failures[name].is_no_space(kind)
    )
    assert crowd.without_room and crowd.unanswered
    judge(crowd, coordinator.data)
