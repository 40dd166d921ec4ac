"""What is measured. Each scenario takes the servers' addresses and gives figures by name."""

from __future__ import annotations

import asyncio
import os
import statistics
import time

import orjson
from attrs import frozen

from eventjobs.client import Client
from eventjobs.tools.bench import load
from eventjobs.tools.bench.servers import Address
from eventjobs.worker import Worker

PAYLOAD = {"file": "report.pdf", "size": 120, "text": "x" * 80}
"""About 120 bytes of JSON."""
BATCH = 1_000
CONNECTIONS = 32


def enqueue_request(queue: str = "bench") -> bytes:
    """POST /jobs with one job."""
    return load.post("/jobs", {"kind": "bench", "queue": queue, "payload": PAYLOAD})


def batch_request(queue: str = "bench", jobs: int = BATCH) -> bytes:
    """POST /jobs/batch."""
    return load.post("/jobs/batch", {"jobs": [{"kind": "bench", "queue": queue, "payload": PAYLOAD}] * jobs})


@frozen
class Ratio:
    """Rates of two servers measured in turns, per second: medians over the rounds."""

    rate: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.rate / self.bare


async def single_enqueue(address: Address, bare: Address, seconds: float, rounds: int) -> Ratio:
    """Single POST /jobs from 32 connections, in turns with the bare endpoint under the same load."""
    request = enqueue_request()

    async def one(connection: load.Connection) -> int:
        await connection.send(request)
        return 1

    rates: dict[Address, list[float]] = {address: [], bare: []}
    for server in (address, bare):  # warm up
        await load.many(server, CONNECTIONS, one, min(1.0, seconds))
    for _ in range(rounds):
        for server, found in rates.items():
            found.append(await load.many(server, CONNECTIONS, one, seconds / rounds))
    return Ratio(statistics.median(rates[address]), statistics.median(rates[bare]))


async def batch_enqueue(address: Address, jobs: int, connections: int = 2) -> float:
    """Jobs a second, 1,000 a request, until `jobs` are in."""
    request, left = batch_request(), jobs // BATCH

    async def one(connection: load.Connection) -> int:
        nonlocal left
        if not left:
            return 0
        left -= 1
        await connection.send(request)
        return BATCH

    return await load.many(address, connections, one, 3_600)


async def lease_and_complete(address: Address, batch: int = 100, connections: int = 4) -> float:
    """Jobs a second through lease and complete in batches, until no job is left."""
    lease = load.post("/lease", {"worker": "bench", "queues": ["bench"], "max_jobs": batch})

    async def one(connection: load.Connection) -> int:
        jobs = orjson.loads(await connection.send(lease))["jobs"]
        if jobs:
            items = [{"id": job["id"], "token": job["lease_token"], "result": {"ok": True}} for job in jobs]
            answer = orjson.loads(await connection.send(load.post("/complete", {"jobs": items})))
            if not all(result["ok"] for result in answer["results"]):
                raise load.BadAnswer("a completion was refused")
        return len(jobs)

    return await load.many(address, connections, one, 3_600)


async def pickup_latency(address: Address, times: int) -> list[float]:
    """Seconds from the answer of an enqueue to the start of the handler, with one idle worker; sorted."""
    url, latencies = f"http://{address[0]}:{address[1]}", []
    started: asyncio.Queue[float] = asyncio.Queue()
    worker = Worker(url, concurrency=4, queues=["latency"])

    @worker.handler("latency")
    async def handle(job: object) -> None:
        started.put_nowait(time.perf_counter())

    running = asyncio.create_task(worker.serve())
    async with Client(url) as client:
        for _ in range(times + 5):
            await client.enqueue("latency", queue="latency")
            answered = time.perf_counter()
            latencies.append(max(0.0, await started.get() - answered))
            await asyncio.sleep(0.01)  # the worker becomes idle again
    await worker.stop()
    await running
    return sorted(latencies[5:])


@frozen
class Depth:
    """Median milliseconds of a single request of each kind: with few jobs waiting, and with many."""

    shallow: dict[str, float]
    deep: dict[str, float]


async def fill(address: Address, waiting: int) -> None:
    """Enqueue jobs in batches, and have the system write what it still holds back of them."""
    await batch_enqueue(address, waiting)
    await asyncio.to_thread(os.sync)


async def at_depth(shallow: Address, deep: Address, times: int) -> Depth:
    """Single requests, one at a time, to two filled coordinators in turns, so that noise meets both alike."""
    requests = {
        "single enqueue": enqueue_request(),
        "single lease": load.post("/lease", {"worker": "bench", "queues": ["bench"], "max_jobs": 1}),
        "GET /stats": load.get("/stats"),
    }
    connections = [await load.Connection.connect(*shallow), await load.Connection.connect(*deep)]
    spent: list[dict[str, list[float]]] = [{name: [] for name in requests} for _ in connections]
    try:
        for _ in range(times):
            for name, request in requests.items():
                for connection, found in zip(connections, spent, strict=True):
                    started = time.perf_counter()
                    await connection.send(request)
                    found[name].append(time.perf_counter() - started)
    finally:
        for connection in connections:
            connection.close()
    return Depth(*({name: statistics.median(found) * 1_000 for name, found in each.items()} for each in spent))
