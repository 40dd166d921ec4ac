"""enqueue_in with the real libraries: the job comes with their transaction, as POST /jobs would have made it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import class_row, dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_async

from eventjobs.api.body import parse
from eventjobs.api.edge import Edge
from eventjobs.api.enqueue_request import Occasion, read_job
from eventjobs.api.faults import Faults
from eventjobs.client import (
    InvalidValue,
    NewJob,
    enqueue_in,
    enqueue_in_async,
    enqueue_many_in,
    enqueue_many_in_async,
)
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.content import Content
from eventjobs.domain.value import changed

JOB = {
    "kind": "invoice",
    "payload": {"order": 7, "text": "ünï\u0000", "sum": 10**30},
    "queue": "mail",
    "priority": 7,
    "max_attempts": 3,
    "run_at": datetime(2026, 1, 31, 8, 0, 0, 123456, UTC),
    "retry_policy": {"type": "linear", "base": 0.5},
    "idempotency_key": "order-7 é",
}
MADE = "CREATE TABLE IF NOT EXISTS orders (number int)"
OWN = "INSERT INTO orders VALUES (7)"


class DictOnly:
    """Rows of a connection that were set to a shape of its own."""

    def __init__(self, **columns) -> None:
        self.columns = columns


class OnlyCursors:
    """What a web framework hands out: cursors of the DB-API, and nothing else."""

    def __init__(self, connection) -> None:
        self.cursor = connection.cursor


def end(connection, commit: bool) -> None:
    connection.commit() if commit else connection.rollback()


async def in_psycopg(url, commit):
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute(OWN)
        told = enqueue_in(connection, **JOB)
        end(connection, commit)
    return told


async def in_psycopg_with_rows_of_a_class(url, commit):
    with psycopg.connect(url, row_factory=class_row(DictOnly)) as connection:
        connection.execute(OWN)
        told = enqueue_in(connection, **JOB)
        end(connection, commit)
    return told


async def in_a_cursor_of_the_db_api(url, commit):
    with psycopg.connect(url) as connection:
        connection.execute(OWN)
        told = enqueue_in(OnlyCursors(connection), **JOB)
        end(connection, commit)
    return told


async def in_async_psycopg(url, commit):
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        await connection.execute(OWN)
        told = await enqueue_in_async(connection, **JOB)
        await (connection.commit() if commit else connection.rollback())
    return told


async def in_asyncpg(url, commit):
    connection = await asyncpg.connect(url)
    await connection.set_type_codec("json", schema="pg_catalog", encoder=repr, decoder=repr)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(OWN)
    told = await enqueue_in_async(connection, **JOB)
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()
    return told


async def in_a_pool_of_asyncpg(url, commit):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(OWN)
        told = await enqueue_in_async(connection, **JOB)
        await (transaction.commit() if commit else transaction.rollback())
    return told


def engine_of(url):
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


async def in_a_connection_of_sqlalchemy(url, commit):
    engine = engine_of(url)
    with engine.connect() as connection:
        connection.execute(sa.text(OWN))
        told = enqueue_in(connection, **JOB)
        end(connection, commit)
    engine.dispose()
    return told


async def in_a_session_of_sqlalchemy(url, commit):
    engine = engine_of(url)
    with orm.Session(engine) as session:
        session.execute(sa.text(OWN))
        told = enqueue_in(session, **JOB)
        end(session, commit)
    engine.dispose()
    return told


async def in_a_scoped_session(url, commit):
    engine = engine_of(url)
    session = orm.scoped_session(orm.sessionmaker(engine))
    session.execute(sa.text(OWN))
    told = enqueue_in(session, **JOB)
    end(session, commit)
    session.remove()
    engine.dispose()
    return told


async def in_an_async_session(url, commit):
    engine = sa_async.create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    async with sa_async.AsyncSession(engine) as session:
        await session.execute(sa.text(OWN))
        told = await enqueue_in_async(session, **JOB)
        await (session.commit() if commit else session.rollback())
    await engine.dispose()
    return told


async def in_an_async_connection_over_psycopg(url, commit):
    engine = sa_async.create_async_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    async with engine.connect() as connection:
        await connection.execute(sa.text(OWN))
        told = await enqueue_in_async(connection, **JOB)
        await (connection.commit() if commit else connection.rollback())
    await engine.dispose()
    return told


WAYS = [
    in_psycopg,
    in_psycopg_with_rows_of_a_class,
    in_a_cursor_of_the_db_api,
    in_async_psycopg,
    in_asyncpg,
    in_a_pool_of_asyncpg,
    in_a_connection_of_sqlalchemy,
    in_a_session_of_sqlalchemy,
    in_a_scoped_session,
    in_an_async_session,
    in_an_async_connection_over_psycopg,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_job_and_row_come_together_or_not_at_all(instance, foreign, url, way):
    """After a rollback neither is there, after a commit both; the command is the one that POST /jobs makes."""
    foreign.execute(MADE)
    await way(url, commit=False)
    assert instance.asked() == [] and foreign.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    told = await way(url, commit=True)
    assert foreign.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    ((asked, command),) = instance.asked()
    assert asked.job_id == told
    wanted = over_http(NewJob(**JOB))
    assert changed(command, payload=Content(command.payload.text, wanted.payload.salt), job_id=wanted.job_id) == wanted


def over_http(job):
    faults = Faults()
    actor = Actor(ActorType.PRODUCER, "postgres")
    command = read_job(parse(job.text("key"), faults), Occasion(Edge(lambda: 0), 0, actor))
    faults.refuse_if_any()
    return command


async def test_many_jobs_keep_their_order_in_statements_of_bounded_size(instance, producer, url):
    """Ids come in the order of the jobs, which is that of the intake, whatever number a statement takes."""
    jobs = [NewJob("k", number) for number in range(2_500)]
    told = enqueue_many_in(producer, jobs, actor="shop", wake=False)
    producer.commit()
    connection = await asyncpg.connect(url)
    told += await enqueue_many_in_async(connection, jobs[:3])
    await connection.close()
    asked = [asked for asked, _ in instance.asked(3_000)]
    assert [each.job_id for each in asked] == told and len(set(told)) == 2_503
    assert [each.text.split(b",")[0] for each in asked[:2_500]] == [
        b'{"payload":%d' % number for number in range(2_500)
    ]
    assert [each.actor for each in asked[2_499:2_501]] == ["shop", "postgres"]
    assert enqueue_many_in(producer, []) == []


def test_what_the_database_refuses_is_its_drivers_exception(producer):
    """With every fault in it; the transaction is over."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="kind must be .*; priority must be"):
        enqueue_in(producer, "a b", priority=1_000)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        producer.execute("SELECT 1")


async def test_what_cannot_be_sent_is_refused_before_the_database_is_asked(producer, url):
    """The transaction goes on: values that JSON has no words for, connections that are none or of the other sort."""
    for wrong in ({"payload": object()}, {"payload": "\ud800"}, {"run_at": datetime(2026, 1, 1)}):  # noqa: DTZ001
        with pytest.raises(InvalidValue):
            enqueue_in(producer, "k", **wrong)
    with pytest.raises(InvalidValue, match="no connection"):
        enqueue_in(object(), "k")
    connection = await asyncpg.connect(url)
    with pytest.raises(TypeError, match="use enqueue_in_async"):
        enqueue_in(connection, "k")
    with pytest.raises(TypeError, match="use enqueue_in or"):
        await enqueue_in_async(producer, "k")
    await connection.close()
    assert producer.execute("SELECT 1").fetchone() == (1,)


def test_no_library_is_loaded_before_it_is_used():
    """An application that asks over HTTP loads no driver of a database."""
    code = "import sys, eventjobs.client; print({'psycopg', 'asyncpg', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
