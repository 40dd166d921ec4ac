"""What is measured of a store that several coordinators share: they drain it alone, together, and hindered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import click
from attrs import frozen

from eventjobs.store.contract import StoreError
from eventjobs.store.postgres.connection import connect
from eventjobs.tools.bench import scenarios, servers
from eventjobs.tools.bench.servers import Address


@frozen
class Shared:
    """Jobs a second. `alone`, `together`: leased and completed in batches of 100 by one and by two coordinators;
    `hindered`: by two, while somebody holds a snapshot that keeps every dead row."""

    enqueued: float
    alone: float
    together: float
    hindered: float


async def measure(url: str, directory: Path, jobs: int, tell: Callable[[str], None]) -> Shared:
    """Measure on the store in a database, which must be empty and is left with four times `jobs` finished jobs."""
    _check_empty(url)
    with ExitStack() as stack:
        first, second = (stack.enter_context(servers.coordinator(directory, url))[0] for _ in range(2))
        tell("enqueue in batches")
        enqueued = await scenarios.batch_enqueue(first, jobs)
        tell("one coordinator")
        alone = await _drain(jobs, first)
        await scenarios.batch_enqueue(first, jobs)
        tell("two coordinators")
        together = await _drain(jobs, first, second)
        async with _snapshot(url):
            tell("two coordinators, with a snapshot held open")
            await scenarios.batch_enqueue(first, jobs)
            await _drain(jobs, first, second)  # leaves the dead rows
            await scenarios.batch_enqueue(first, jobs)
            hindered = await _drain(jobs, first, second)
    return Shared(enqueued, alone, together, hindered)


async def _drain(jobs: int, *addresses: Address) -> float:
    """Jobs a second until none is left, by four connections in all."""
    began = time.monotonic()
    each = 4 // len(addresses)
    await asyncio.gather(*[scenarios.lease_and_complete(address, connections=each) for address in addresses])
    return jobs / (time.monotonic() - began)


def _check_empty(url: str) -> None:
    try:
        connection = connect(url)
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    with connection:
        if connection.execute("SELECT to_regclass('eventjobs.log')").fetchone() != (None,):
            raise click.ClickException("the database has a store already; the measurement wants an empty database")


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    """A transaction of somebody else, open all the time."""
    connection = await asyncio.to_thread(connect, url)
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM eventjobs.jobs")
        yield
    finally:
        connection.close()
