"""Enqueuing within a transaction of the program's own, where the store is a PostgreSQL database.

    with psycopg.connect(...) as connection:
        connection.execute("INSERT INTO orders ...")
        job_id = enqueue_in(connection, "invoice", {"order": 7})

The job comes with the transaction's commit, and after a rollback there is none. Taken are connections of psycopg,
asyncpg, psycopg2 and other drivers of the DB-API that write parameters as %s (that of Django among them), and sessions
and connections of SQLAlchemy over any of these. None of them is loaded here. The id is that of the job to come: a
coordinator knows it once it has taken the job in, a few milliseconds after the commit as a rule.

What the database refuses is told by its driver's own exception, and the transaction can then only be rolled back:
invalid_parameter_value (22023) or another of class 22 for a value that POST /jobs would refuse too, unique_violation
(23505) for an idempotency key that another request has, insufficient_privilege (42501).
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from eventjobs.client.checks import items
from eventjobs.client.errors import InvalidValue
from eventjobs.client.requests import NewJob
from eventjobs.domain.limits import BATCH_JOBS_MAX, BODY_BYTES_MAX

_QUERY = (
    "SELECT CAST(eventjobs.enqueue_request(CAST(job.request AS json), CAST(job.payload AS json), "
    "CAST({} AS text), CAST({} AS boolean)) AS text) "
    "FROM unnest(CAST({} AS text[]), CAST({} AS text[])) WITH ORDINALITY AS job(request, payload, place) "
    "ORDER BY job.place"
)
_DB_API = _QUERY.format(*["%s"] * 4)
_ASYNCPG = _QUERY.format("$1", "$2", "$3", "$4")
_SQLALCHEMY = _QUERY.format(":actor", ":wake", ":requests", ":payloads")

Parameters = tuple[str | None, bool, list[str], list[str]]
"""Of the query: actor, wake, and the members and payloads of the jobs as JSON texts."""


def enqueue_in(
    connection: Any,
    kind: str,
    payload: object = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    run_at: datetime | None = None,
    delay_seconds: float | None = None,
    retry_policy: Mapping[str, object] | str | None = None,
    idempotency_key: str | None = None,
    actor: str | None = None,
    wake: bool = True,
) -> str:
    """Enqueue within the connection's (or session's) transaction; the id of the job to come.

    The arguments are those of Client.enqueue. `actor` names who asks, the database's role when left out. Without `wake`
    no notification is sent at the commit: coordinators notice the job within a second all the same.
    """
    job = NewJob(kind, payload, queue, priority, max_attempts, run_at, delay_seconds, retry_policy, idempotency_key)
    return enqueue_many_in(connection, [job], actor=actor, wake=wake)[0]


async def enqueue_in_async(
    connection: Any,
    kind: str,
    payload: object = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    run_at: datetime | None = None,
    delay_seconds: float | None = None,
    retry_policy: Mapping[str, object] | str | None = None,
    idempotency_key: str | None = None,
    actor: str | None = None,
    wake: bool = True,
) -> str:
    """enqueue_in, for connections and sessions that are awaited."""
    job = NewJob(kind, payload, queue, priority, max_attempts, run_at, delay_seconds, retry_policy, idempotency_key)
    return (await enqueue_many_in_async(connection, [job], actor=actor, wake=wake))[0]


def enqueue_many_in(
    connection: Any, jobs: Iterable[NewJob], *, actor: str | None = None, wake: bool = True
) -> list[str]:
    """Enqueue many jobs within the connection's transaction, in order; their ids."""
    if _is_awaited(connection):
        raise TypeError(f"{_name(connection)} is awaited: use enqueue_in_async or enqueue_many_in_async")
    found: list[str] = []
    for parameters in _statements(jobs, actor, wake):
        found += _run(connection, parameters)
    return found


async def enqueue_many_in_async(
    connection: Any, jobs: Iterable[NewJob], *, actor: str | None = None, wake: bool = True
) -> list[str]:
    """enqueue_many_in, for connections and sessions that are awaited."""
    if not _is_awaited(connection):
        raise TypeError(f"{_name(connection)} is not awaited: use enqueue_in or enqueue_many_in")
    found: list[str] = []
    for parameters in _statements(jobs, actor, wake):
        found += await _run_async(connection, parameters)
    return found


def _statements(jobs: Iterable[NewJob], actor: str | None, wake: bool) -> Iterator[Parameters]:
    """The jobs by groups of bounded size."""
    requests: list[str] = []
    payloads: list[str] = []
    size = 0
    for job in items(jobs, NewJob):
        requests.append(job.members_text().decode())
        payloads.append(job.payload_text().decode())
        size += len(payloads[-1])
        if len(requests) == BATCH_JOBS_MAX or size >= BODY_BYTES_MAX:
            yield actor, wake, requests, payloads
            requests, payloads, size = [], [], 0
    if requests:
        yield actor, wake, requests, payloads


def _run(connection: Any, parameters: Parameters) -> list[str]:
    if _is_of(connection, "sqlalchemy"):
        return list(connection.execute(*_for_sqlalchemy(parameters)).scalars())
    if not hasattr(connection, "cursor") or _is_of(connection, "sqlite3"):
        raise InvalidValue(f"{_name(connection)} is no connection to PostgreSQL that jobs could be enqueued in")
    with connection.cursor(**_plain_rows(connection)) as cursor:
        cursor.execute(_DB_API, parameters)
        return [row[0] for row in cursor.fetchall()]


async def _run_async(connection: Any, parameters: Parameters) -> list[str]:
    if _is_of(connection, "sqlalchemy"):
        return list((await connection.execute(*_for_sqlalchemy(parameters))).scalars())
    if _is_of(connection, "asyncpg"):
        return [row[0] for row in await connection.fetch(_ASYNCPG, *parameters)]
    async with connection.cursor(**_plain_rows(connection)) as cursor:
        await cursor.execute(_DB_API, parameters)
        return [row[0] for row in await cursor.fetchall()]


def _for_sqlalchemy(parameters: Parameters) -> tuple[Any, dict[str, object]]:
    from sqlalchemy import text  # loaded already by whoever has a session

    return text(_SQLALCHEMY), dict(zip(("actor", "wake", "requests", "payloads"), parameters, strict=True))


def _plain_rows(connection: Any) -> dict[str, object]:
    """psycopg makes rows in the shape that its connection was set to, other drivers make tuples."""
    return {"row_factory": lambda cursor: tuple} if _is_of(connection, "psycopg") else {}


def _is_awaited(connection: Any) -> bool:
    return _is_of(connection, "asyncpg") or inspect.iscoroutinefunction(getattr(connection, "execute", None))


def _is_of(connection: Any, library: str) -> bool:
    return any(base.__module__.partition(".")[0] == library for base in type(connection).__mro__)


def _name(connection: Any) -> str:
    return reprlib.repr(connection)
