"""A crowd of producers and workers of a real coordinator that keep a ledger, and the judge of a store by that ledger.

The crowd asks again whenever it was not answered, was answered 503 (perhaps done, perhaps not), or was refused for want
of room (507: certainly not done). What it was told in the end is in the ledger, and the store must hold exactly that.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from attrs import frozen

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import Reader
from eventjobs.store.merkle import Frontier, leaf_hash
from eventjobs.testing.folding import Fold

PRODUCERS = WORKERS = 8
LEASE_SECONDS = 600
"""Longer than a test: no lease ends by itself, so every job must be leased and completed exactly once."""
STANDSTILL_SECONDS_MAX = 30
"""How long nothing may be acknowledged."""
AGAIN_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
REUSED_EVERY = 5
"""Each so manyth key is used a second time for something else."""

REFUSED_KIND = "refused"


@frozen
class Told:
    """How a request ended. `sure`: every earlier try of it, if any, was refused for want of room."""

    status: int
    document: Any
    sure: bool


class Crowd:
    """Producers and workers; `enqueued` and `completed` are the ledger. Several coordinators are asked in turn."""

    def __init__(self, urls: Sequence[str], session: aiohttp.ClientSession) -> None:
        self.urls, self.session = itertools.cycle(urls), session
        self.up = asyncio.Event()
        self.up.set()
        self.producing = True
        self.acknowledged = self.unanswered = self.refusals = self.without_room = 0
        self.enqueued: dict[str, str] = {}
        """Acknowledged enqueues: key -> job id."""
        self.completed: dict[str, tuple[int, Any]] = {}
        """Acknowledged completions: job id -> (token, result)."""
        self.wrong: list[Any] = []
        """Answers that must not be."""
        self._grown = asyncio.Condition()

    async def ask(self, path: str, body: dict[str, Any] | None = None, full_is_an_answer: bool = False) -> Told:
        """Send a request until it is answered for good. Without a body it asks for a document.

        With `full_is_an_answer` a refusal for want of room is one, as long as it is sure that nothing was done.
        """
        sure = True
        while True:
            await self.up.wait()
            try:
                async with self.session.request(
                    "GET" if body is None else "POST", next(self.urls) + path, json=body
                ) as answer:
                    document = await answer.json(content_type=None)
                if answer.status not in (503, 507):
                    return Told(answer.status, document, sure)
                if answer.status == 503:
                    self.unanswered += 1
                    sure = False
                else:
                    self.without_room += 1
                    if sure and full_is_an_answer:
                        return Told(answer.status, document, sure)
            except (aiohttp.ClientError, OSError, json.JSONDecodeError):
                self.unanswered += 1
                sure = False
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
        """Wait until so much more was acknowledged. Raises AssertionError for a wrong answer, TimeoutError."""
        goal = self.acknowledged + count
        while self.acknowledged < goal:
            async with asyncio.timeout(STANDSTILL_SECONDS_MAX), self._grown:
                await self._grown.wait()
            assert self.wrong == [], f"this must not be told: {self.wrong[0]}"

    async def produce(self, name: str) -> None:
        for number in itertools.count():
            if not self.producing:
                return
            key = f"{name}-{number}"
            told = await self.ask("/jobs", {"kind": "work", "payload": key, "idempotency_key": key})
            if told.status not in ((201,) if told.sure else (200, 201)) or told.document["payload"] != key:
                await self.complain(told)
                continue
            self.enqueued[key] = told.document["id"]
            await self.acknowledge()
            if number % REUSED_EVERY == 0:
                await self._reuse(key)

    async def _reuse(self, key: str) -> None:
        """Ask for something else under the key: it must be refused."""
        told = await self.ask("/jobs", {"kind": REFUSED_KIND, "idempotency_key": key})
        self.refusals += 1
        if (told.status, told.document.get("code")) != (409, "idempotency_key_reused"):
            await self.complain(told)

    async def work(self, name: str) -> None:
        for number in itertools.count():
            request = {
                "worker": name, "max_jobs": 5, "lease_seconds": LEASE_SECONDS, "wait_seconds": 1,
                "request_id": f"{name}-{number}",
            }  # fmt: skip
            told = await self.ask("/lease", request, full_is_an_answer=True)
            if told.status == 507:  # nothing was granted, so that another request id must do as well
                await asyncio.sleep(AGAIN_SECONDS)
            elif told.status != 200:
                await self.complain(told)
            elif told.document["jobs"]:
                await self._complete(name, told.document["jobs"])

    async def _complete(self, name: str, jobs: list[dict[str, Any]]) -> None:
        items = [
            {"id": job["id"], "token": job["lease_token"], "result": {"by": name, "of": job["payload"]}} for job in jobs
        ]
        stale = {"id": jobs[0]["id"], "token": jobs[0]["lease_token"] + 1, "result": REFUSED_KIND}
        while (told := await self.ask("/complete", {"jobs": [*items, stale]}, full_is_an_answer=True)).status == 507:
            await self._still_running(jobs)
        outcomes = told.document.get("results", []) if told.status == 200 else []
        if [outcome["ok"] for outcome in outcomes] != [True] * len(items) + [False]:
            await self.complain(told)
            return
        self.refusals += 1
        for item in items:
            self.completed[item["id"]] = item["token"], item["result"]
        await self.acknowledge(len(items))

    async def _still_running(self, jobs: list[dict[str, Any]]) -> None:
        """What was refused for want of room was not done."""
        told = await self.ask(f"/jobs/{jobs[0]['id']}")
        if (told.status, told.document.get("state")) != (200, "running"):
            await self.complain(told)
        await asyncio.sleep(AGAIN_SECONDS)

    async def everything_done(self) -> None:
        """Wait until no job is left to do and every answer is in."""
        while len(self.completed) < len(self.enqueued):
            await self.grown_by(1)


@asynccontextmanager
async def crowd_at(*urls: str, patience_seconds: float = PATIENCE_SECONDS) -> AsyncIterator[Crowd]:
    """A crowd at work, which waits so long for an answer. At the end of the context it works until everything is
    done."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(patience_seconds)) as session:
        crowd = Crowd(urls, session)
        producers = [asyncio.create_task(crowd.produce(f"producer-{number}")) for number in range(PRODUCERS)]
        workers = [asyncio.create_task(crowd.work(f"worker-{number}")) for number in range(WORKERS)]
        try:
            yield crowd
            crowd.producing = False
            async with asyncio.timeout(STANDSTILL_SECONDS_MAX):
                await asyncio.gather(*producers)
            await crowd.everything_done()
        finally:
            for task in (*producers, *workers):
                task.cancel()
            await asyncio.gather(*producers, *workers, return_exceptions=True)


def check_ledger(crowd: Crowd, reader: Reader) -> None:
    """The store holds exactly what was acknowledged: nothing is missing or there twice, nothing refused is there."""
    assert crowd.wrong == [], f"this must not be told: {crowd.wrong[0]}"
    records = reader.records(0, reader.head().size)
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


def check_integrity(reader: Reader) -> None:
    """The log is gapless, its times do not decrease, its tree is that of the head, and it folds to what is stored: jobs
    and read models."""
    frontier, fold, size, time = Frontier(), Fold(READ_MODELS), reader.head().size, 0
    for position in range(1, size + 1):
        frontier.append(leaf_hash(reader.record_text(position)))
        record = reader.record(position)
        before = fold.jobs.get(record.job_id)
        assert record.position == position and record.time >= time
        time = record.time
        assert record.version == (1 if before is None else before.version + 1)
        fold.take([record])
    assert (frontier.size, frontier.root()) == (size, reader.head().root)
    assert all(reader.job(job_id) == job for job_id, job in fold.shown.items())
    assert fold.differing(reader) == []
