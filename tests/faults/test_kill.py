"""kill -9 of the coordinator under load: what was acknowledged is there, what was refused is not, the rest is told."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import Counter, defaultdict
from typing import Any

import aiohttp

from eventjobs.domain.evolve import evolve
from eventjobs.projections import READ_MODELS, stats
from eventjobs.store.lmdb import open_engine
from eventjobs.store.merkle import Frontier, leaf_hash

PRODUCERS = WORKERS = 8
ACKNOWLEDGED_PER_ROUND = (100, 300)
"""How much is acknowledged between two kills, at least and at most."""
LEASE_SECONDS = 600
"""Longer than the test: no lease ends by itself, so every job must be leased and completed exactly once."""
STANDSTILL_SECONDS_MAX = 30
"""How long nothing may be acknowledged."""
AGAIN_SECONDS = 0.05

REFUSED_KIND = "refused"


class Crowd:
    """Producers and workers that keep a ledger, and ask again whenever they were not answered."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session
        self.up = asyncio.Event()
        self.up.set()
        self.producing = True
        self.acknowledged = 0
        self.unanswered = 0
        self.enqueued: dict[str, str] = {}
        """Acknowledged enqueues: key -> job id."""
        self.completed: dict[str, tuple[int, Any]] = {}
        """Acknowledged completions: job id -> (token, result)."""
        self.refusals = 0
        self.wrong: list[Any] = []
        """Answers that must not be."""
        self._grown = asyncio.Condition()

    async def ask(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Send a request until it is answered for good; status and document."""
        while True:
            await self.up.wait()
            try:
                async with self.session.post(self.url + path, json=body) as answer:
                    document = await answer.json(content_type=None)
                if answer.status != 503:
                    return answer.status, document
            except (aiohttp.ClientError, OSError, json.JSONDecodeError):
                self.unanswered += 1
            await asyncio.sleep(AGAIN_SECONDS)

    async def acknowledge(self, count: int = 1) -> None:
        self.acknowledged += count
        async with self._grown:
            self._grown.notify_all()

    async def complain(self, *answer: Any) -> None:
        """An answer that must not be ends the test."""
        self.wrong.append(answer)
        await self.acknowledge(0)

    async def grown_by(self, count: int) -> None:
        """Wait until so much more was acknowledged."""
        goal = self.acknowledged + count
        while self.acknowledged < goal:
            async with asyncio.timeout(STANDSTILL_SECONDS_MAX), self._grown:
                await self._grown.wait()
            assert self.wrong == []

    async def produce(self, name: str) -> None:
        for number in itertools.count():
            if not self.producing:
                return
            key = f"{name}-{number}"
            status, job = await self.ask("/jobs", {"kind": "work", "payload": key, "idempotency_key": key})
            if status not in (200, 201) or job["payload"] != key:
                await self.complain(status, job)
                continue
            self.enqueued[key] = job["id"]
            await self.acknowledge()
            if number % 5 == 0:
                await self._reuse(key)

    async def _reuse(self, key: str) -> None:
        """Ask for something else under the key: it must be refused."""
        status, document = await self.ask("/jobs", {"kind": REFUSED_KIND, "idempotency_key": key})
        self.refusals += 1
        if (status, document.get("code")) != (409, "idempotency_key_reused"):
            await self.complain(status, document)

    async def work(self, name: str) -> None:
        for number in itertools.count():
            request = {
                "worker": name, "max_jobs": 5, "lease_seconds": LEASE_SECONDS, "wait_seconds": 1,
                "request_id": f"{name}-{number}",
            }  # fmt: skip
            status, document = await self.ask("/lease", request)
            if status != 200:
                await self.complain(status, document)
            elif document["jobs"]:
                await self._complete(name, document["jobs"])

    async def _complete(self, name: str, jobs: list[dict[str, Any]]) -> None:
        items = [
            {"id": job["id"], "token": job["lease_token"], "result": {"by": name, "of": job["payload"]}} for job in jobs
        ]
        stale = {"id": jobs[0]["id"], "token": jobs[0]["lease_token"] + 1, "result": REFUSED_KIND}
        status, document = await self.ask("/complete", {"jobs": [*items, stale]})
        outcomes = document.get("results", []) if status == 200 else []
        if [outcome["ok"] for outcome in outcomes] != [True] * len(items) + [False]:
            await self.complain(status, document)
            return
        self.refusals += 1
        for item in items:
            self.completed[item["id"]] = item["token"], item["result"]
        await self.acknowledge(len(items))


async def killed_again_and_again(coordinator, crowd: Crowd, rounds: int) -> None:
    chance = random.Random(rounds)
    for _ in range(rounds):
        await crowd.grown_by(chance.randint(*ACKNOWLEDGED_PER_ROUND))
        coordinator.kill()
        crowd.up.clear()
        await asyncio.to_thread(coordinator.restart)
        crowd.up.set()
    await crowd.grown_by(ACKNOWLEDGED_PER_ROUND[0])


async def everything_done(crowd: Crowd) -> None:
    """Wait until no job is left to do and every answer is in."""
    while len(crowd.completed) < len(crowd.enqueued):
        await crowd.grown_by(1)


async def run_crowd(coordinator, rounds: int) -> Crowd:
    async with aiohttp.ClientSession() as session:
        crowd = Crowd(coordinator.url, session)
        producers = [asyncio.create_task(crowd.produce(f"producer-{number}")) for number in range(PRODUCERS)]
        workers = [asyncio.create_task(crowd.work(f"worker-{number}")) for number in range(WORKERS)]
        try:
            await killed_again_and_again(coordinator, crowd, rounds)
            crowd.producing = False
            async with asyncio.timeout(STANDSTILL_SECONDS_MAX):
                await asyncio.gather(*producers)
            await everything_done(crowd)
        finally:
            for task in (*producers, *workers):
                task.cancel()
            await asyncio.gather(*producers, *workers, return_exceptions=True)
    return crowd


def check_ledger(crowd: Crowd, reader) -> None:
    """The store holds exactly what was acknowledged: nothing is missing or there twice, nothing refused is there."""
    records = reader.records(0, 10_000_000)
    histories = defaultdict(list)
    for record in records:
        histories[record.job_id].append(record)
    assert set(histories) == set(crowd.enqueued.values())
    assert len(set(crowd.enqueued.values())) == len(crowd.enqueued)
    for key, job_id in crowd.enqueued.items():
        first, leased, completed = histories[job_id]
        assert (first.event.idempotency_key, first.event.kind) == (key, "work")
        token, result = crowd.completed[job_id]
        assert leased.event.token == completed.event.token == token
        job = reader.job(job_id)
        assert json.loads(reader.content(job.spec.payload)) == key == result["of"]
        assert json.loads(reader.content(job.result)) == result
        assert leased.event.worker == completed.actor.id == result["by"]
    assert Counter(record.event.type for record in records) == dict.fromkeys(
        ("job_enqueued", "job_leased", "job_completed"), len(crowd.enqueued)
    )


def check_integrity(reader) -> None:
    """The log is gapless, its tree is the one of the head, and folding it gives the stored jobs and numbers."""
    frontier, jobs, size = Frontier(), {}, reader.head().size
    for position in range(1, size + 1):
        text = reader.record_text(position)
        frontier.append(leaf_hash(text))
        record = reader.record(position)
        before = jobs.get(record.job_id)
        assert record.position == position
        assert record.version == (1 if before is None else before.version + 1)
        jobs[record.job_id] = evolve(before, record)
    assert (frontier.size, frontier.root()) == (size, reader.head().root)
    assert all(reader.job(job_id) == job for job_id, job in jobs.items())
    states = Counter(str(job.state) for job in jobs.values())
    assert {state: count for state, count in stats.read(reader).jobs.items() if count} == states


async def test_nothing_acknowledged_is_lost_when_the_coordinator_is_killed(coordinator, rounds):
    """Clients that ask again after each kill end with a ledger that the log confirms to the last entry."""
    crowd = await run_crowd(coordinator, rounds)
    assert crowd.wrong == []
    assert crowd.unanswered > 0, "no request was ever under way when the coordinator was killed"
    assert crowd.refusals > 0
    coordinator.stop()
    engine = open_engine(coordinator.data, READ_MODELS, force_filesystem=True)
    try:
        with engine.read() as reader:
            check_ledger(crowd, reader)
            check_integrity(reader)
    finally:
        engine.close()
