"""A database that breaks, stops, fills up or is used by others, under two coordinators and a crowd with a ledger.

Nothing acknowledged is lost, nothing is done twice, and everything goes on by itself. The crowd asks the coordinators
in turn: what one did not answer is asked of the other.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from eventjobs.cli import exits
from eventjobs.projections import READ_MODELS
from eventjobs.store.postgres import open_engine
from eventjobs.testing.cutting_proxy import CuttingProxy
from eventjobs.testing.ledger import Crowd, check_integrity, check_ledger, crowd_at
from eventjobs.testing.postgres import OwnServer, PostgresServer
from eventjobs.testing.processes import CoordinatorProcess, wait_for

BETWEEN = (40, 120)
"""How much is acknowledged between two faults."""
FROZEN_SECONDS = {"quick": 1.0, "ci": 3.0, "deep": 12.0}
"""How long a coordinator stands still at the most; it is ended by the database after ten seconds if others wait."""
PATIENCE_SECONDS = 5.0
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'eventjobs'"
DISK_BYTES = 48 << 20
MORE_BYTES = 512 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be restarted."""
    own = OwnServer()
    own.start()
    with PostgresServer(own.url, own) as server:
        yield server


@pytest.fixture
def database(server) -> str:
    return server.new_database()


@pytest.fixture
def start_two(tmp_path: Path):
    """Starts two coordinators on a database. (url) -> both"""
    with ExitStack() as stack:

        def start(url: str) -> list[CoordinatorProcess]:
            for name in ("first", "second"):
                (tmp_path / name).mkdir()
            made = [CoordinatorProcess(tmp_path / name, store=url) for name in ("first", "second")]
            return [stack.enter_context(each) for each in made]

        yield start


def judge(crowd: Crowd, pair: list[CoordinatorProcess], url: str) -> None:
    """Both end in good order, and the store is held against the ledger."""
    for coordinator in pair:
        coordinator.process.terminate()
        assert coordinator.process.wait() == exits.DONE, coordinator.process.text()
        assert "Traceback" not in coordinator.process.text()
    engine = open_engine(url, READ_MODELS)
    try:
        with engine.read() as reader:
            check_ledger(crowd, reader)
            check_integrity(reader)
    finally:
        engine.close()


def urls_of(pair: list[CoordinatorProcess]) -> list[str]:
    return [each.url for each in pair]


async def test_backends_that_are_ended_at_random(database, start_two, rounds):
    """pg_terminate_backend in the middle of anything: what was answered stands."""
    pair, chance = start_two(database), random.Random(rounds)
    with psycopg.connect(database, autocommit=True) as admin:
        async with crowd_at(*urls_of(pair)) as crowd:
            for _ in range(3 * rounds):
                await crowd.grown_by(chance.randint(*BETWEEN) // 2)
                pids = [pid for (pid,) in admin.execute(BACKENDS)]
                for pid in chance.sample(pids, min(len(pids), 3)):
                    admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
    judge(crowd, pair, database)


async def test_restarts_of_the_database(server, database, start_two, rounds):
    """Stopped in good order and outright, for a moment or for a while: 503 with Retry-After meanwhile, and then on."""
    pair, chance = start_two(database), random.Random(rounds)
    async with crowd_at(*urls_of(pair)) as crowd:
        for number in range(max(2, rounds // 2)):
            await crowd.grown_by(chance.randint(*BETWEEN))
            await asyncio.to_thread(server.own.stop, number % 2 == 0)
            async with crowd.session.post(pair[0].url + "/jobs", json={"kind": "never"}) as answer:
                assert (answer.status, answer.headers["Retry-After"].isdigit()) == (503, True)
            await asyncio.to_thread(server.own.start)
        await crowd.grown_by(BETWEEN[0])
    assert crowd.unanswered > 0
    judge(crowd, pair, database)


async def test_coordinators_that_are_killed_and_frozen(database, start_two, rounds, profile):
    """SIGKILL and SIGSTOP at random, perhaps with the append lock in the hand: the other one goes on."""
    pair, chance = start_two(database), random.Random(rounds)
    async with crowd_at(*urls_of(pair), patience_seconds=PATIENCE_SECONDS) as crowd:
        for number in range(2 * max(1, rounds // 3)):
            await crowd.grown_by(chance.randint(*BETWEEN))
            victim = pair[chance.randrange(2)]
            if number % 2:
                victim.kill()
                await asyncio.to_thread(victim.restart)
                continue
            victim.process.send(signal.SIGSTOP)
            with suppress(TimeoutError):
                async with asyncio.timeout(FROZEN_SECONDS[profile]):
                    await crowd.grown_by(BETWEEN[1])
            victim.process.send(signal.SIGCONT)
        await crowd.grown_by(BETWEEN[0])
    judge(crowd, pair, database)


async def test_sessions_of_others(database, start_two, rounds):
    """One transaction is open all the time; others lock jobs in any order, and the append lock: all is done all the
    same."""
    pair, chance = start_two(database), random.Random(rounds)
    with psycopg.connect(database) as watching, psycopg.connect(database) as meddling:
        watching.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        watching.execute("SELECT count(*) FROM eventjobs.jobs")
        async with crowd_at(*urls_of(pair)) as crowd:
            for _ in range(2 * rounds):
                await crowd.grown_by(BETWEEN[0])
                with suppress(psycopg.errors.DeadlockDetected):
                    jobs = await asyncio.to_thread(lock_backwards, meddling, chance)
                    assert jobs > 0
                meddling.rollback()
        assert watching.execute("SELECT count(*) FROM eventjobs.jobs").fetchone() == (0,)
    judge(crowd, pair, database)


def lock_backwards(connection: psycopg.Connection, chance: random.Random) -> int:
    """Lock some running jobs one by one, the newest first; how many."""
    found = connection.execute("SELECT id FROM eventjobs.jobs ORDER BY id DESC LIMIT 40").fetchall()
    for (job_id,) in found:
        connection.execute("SELECT FROM eventjobs.jobs WHERE id = %s FOR UPDATE", (job_id,))
        connection.execute("SELECT pg_sleep(%s)", (chance.random() / 500,))
    return len(found)


async def test_connections_cut_around_a_commit(database, start_two, rounds):
    """Between a commit and its answer the coordinator finds out that it was done, and says so; a request that never
    arrived is sent again."""
    parts, chance = urlsplit(database), random.Random(rounds)
    async with CuttingProxy.before(parts.hostname, parts.port) as proxy:
        pair = await asyncio.to_thread(start_two, proxy.url_of(database))
        async with crowd_at(*urls_of(pair)) as crowd:
            for _ in range(2 * rounds):
                await crowd.grown_by(chance.randint(*BETWEEN) // 2)
                await proxy.cut_an_answer()
            await crowd.grown_by(BETWEEN[0])
            assert crowd.unanswered == 0, "a commit that was done was not found"
            for _ in range(2 * rounds):
                await crowd.grown_by(chance.randint(*BETWEEN) // 2)
                await proxy.cut_a_request()
        assert proxy.cuts == 4 * rounds
        await asyncio.to_thread(judge, crowd, pair, database)


async def test_a_disk_of_the_server_that_is_full(server, start_two, small_disk):
    """507 for what finds no room, nothing of it is there, and with room again all goes on."""
    disk = small_disk(DISK_BYTES, server.own.directory)
    server.own.own(disk)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        admin.execute("CREATE DATABASE on_small_disk TEMPLATE template0 TABLESPACE small")
        database = server.url.rpartition("/")[0] + "/on_small_disk"
        pair = start_two(database)
        async with crowd_at(*urls_of(pair)) as crowd:
            with (disk / "ballast").open("wb") as ballast, suppress(OSError):
                while True:
                    ballast.write(bytes(1 << 20))
                    ballast.flush()
            while crowd.without_room == 0:
                await asyncio.sleep(0.01)
                assert crowd.wrong == []
            subprocess.run(["mount", "-o", f"remount,size={MORE_BYTES}", str(disk)], check=True)
            await crowd.grown_by(BETWEEN[1])
        judge(crowd, pair, database)
        wait_for(
            lambda: (
                admin.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'on_small_disk'").fetchone()
                == (0,)
            ),
            "no sessions",
        )
        admin.execute("DROP DATABASE on_small_disk")
        admin.execute("DROP TABLESPACE small")
