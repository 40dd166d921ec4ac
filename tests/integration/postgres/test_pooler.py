"""Behind a pgbouncer that shares connections out by transaction: everything works, with or without --no-notify."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from itertools import chain

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa

from eventjobs.cli import exits
from eventjobs.client import NewJob, enqueue_in, enqueue_in_async, enqueue_many_in
from eventjobs.projections import READ_MODELS
from eventjobs.store.postgres import open_engine
from eventjobs.store.postgres.connection import connect, is_pooled
from eventjobs.testing import builders as b
from eventjobs.testing.ledger import check_integrity, check_ledger, crowd_at
from eventjobs.testing.pooler import Pooler, find_pooler
from eventjobs.testing.processes import CoordinatorProcess

pytestmark = pytest.mark.skipif(find_pooler() is None, reason="there is no pgbouncer (Debian: apt install pgbouncer)")

CONNECTIONS = 3
"""To the server, for all the coordinators together."""
JOBS = 60
NOT_LISTENING = "not_listening"


@pytest.fixture
def pooler(server, tmp_path):
    with Pooler(server.url, tmp_path / "pooler", "transaction", CONNECTIONS) as pooler:
        yield pooler


@pytest.fixture
def url(server, pooler) -> str:
    return pooler.url_of(server.url)


def test_a_pooler_is_noticed(server, url):
    """On a connection of one's own the server's number of it is the one that was told."""
    for address, pooled in ((server.url, False), (url, True)):
        with connect(address) as connection:
            assert is_pooled(connection) is pooled
            assert (connection.prepare_threshold is None) is pooled


def test_instances_share_few_connections(make_instance, at_once, sound):
    """More clients than connections, each transaction on another one: nothing is left behind on any of them."""
    instances = [make_instance() for _ in range(3)]
    instances[0].enqueue(*[b.enqueue(b.an_id(number), idempotency_key=f"key-{number}") for number in range(JOBS)])

    def drain(instance):
        met = []
        while jobs := instance.lease(3):
            met += [job.id for job in jobs]
            instance.complete(jobs)
            with instance.engine.read() as reader:
                assert reader.job(met[-1]).lease is None
            instance.engine.maintain()
        return met

    met = list(chain(*at_once(*[lambda each=each: drain(each) for each in instances])))
    met += drain(instances[0])
    assert sorted(met) == [b.an_id(number) for number in range(JOBS)]
    sound(instances[0].engine)


def test_a_store_is_brought_up_to_date_through_it(make_instance, url, sound):
    """Folding projections anew keeps to one transaction too."""
    instance = make_instance()
    instance.enqueue(*[b.enqueue(b.an_id(number)) for number in range(JOBS)])
    open_engine(url, ()).close()
    sound(make_instance().engine)


async def test_producers_enqueue_through_it(make_instance, url, sound):
    """By each library, more connections than there are, a transaction each time on another one: every job comes once,
    in order, and its key is held."""
    instance = make_instance()
    engine = sa.create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), connect_args={"prepare_threshold": None}
    )
    producers = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2 * CONNECTIONS)]
    told = []
    for place, producer in enumerate(2 * producers):
        async with producer.transaction():
            told.append(await enqueue_in_async(producer, "k", place, idempotency_key=f"async-{place}"))
            assert await enqueue_in_async(producer, "k", place, idempotency_key=f"async-{place}") == told[-1]
        with engine.begin() as connection:
            told.append(enqueue_in(connection, "k", place))
        with psycopg.connect(url, prepare_threshold=None) as connection:
            told += enqueue_many_in(connection, [NewJob("k", place)] * 2)
    for producer in producers:
        await producer.close()
    engine.dispose()
    while instance.take_in(10):
        pass
    assert [record.job_id for record in sound(instance.engine)] == told


async def test_coordinators_and_a_crowd(server, url, tmp_path):
    """A ledger of all that was answered; a long-poll wakes for a job of the other coordinator; one that was not told of
    the pooler says that it does not listen, once."""
    (tmp_path / "told").mkdir()
    (tmp_path / "untold").mkdir()
    with ExitStack() as stack:
        told = stack.enter_context(CoordinatorProcess(tmp_path / "told", "--no-notify", store=url))
        untold = stack.enter_context(CoordinatorProcess(tmp_path / "untold", store=url))
        async with crowd_at(told.url, untold.url) as crowd:
            await crowd.grown_by(150)
            with psycopg.connect(server.url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'eventjobs' AND pid <> pg_backend_pid()"
                )
            await crowd.grown_by(150)
        engine = open_engine(url, READ_MODELS)
        with engine.read() as reader:
            check_ledger(crowd, reader)
            check_integrity(reader)
        engine.close()
        waiting = asyncio.create_task(
            asyncio.to_thread(untold.ask, "/lease", {"worker": "w", "kinds": ["new"], "wait_seconds": 20})
        )
        _, job = await asyncio.to_thread(told.ask, "/jobs", {"kind": "new"})
        _, leased = await waiting
        assert [each["id"] for each in leased["jobs"]] == [job["id"]]
        assert (told.stop(), untold.stop()) == (exits.DONE, exits.DONE)
        assert [each.log.read_text().count(NOT_LISTENING) for each in (told, untold)] == [0, 1]
        assert not any("prepared" in each.log.read_text() for each in (told, untold))
