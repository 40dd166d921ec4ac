"""A coordinator in memory for the tests of the worker: the rules of leases, faults on demand. Time is the loop's."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import define, field
from structlog.testing import capture_logs

from eventjobs import Worker
from eventjobs.client import ItemResult, Job, JobNotFound, Problem, StaleToken, Unreachable
from eventjobs.client.requests import Completion, Failure, Renewal
from eventjobs.client.values import Raw, to_json
from eventjobs.testing import virtual_time

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
LONGEST_TEST_SECONDS = 3_600


@define
class Row:
    """A job as the fake coordinator keeps it; `log` is what happened to it, in order."""

    id: str
    kind: str
    payload: bytes
    queue: str = "default"
    state: str = "queued"
    attempts: int = 0
    token: int = 0
    owner: str | None = None
    expires_at: float = 0.0
    lease_seconds: float = 0.0
    run_at: float = 0.0
    result: Any = None
    error: Any = None
    log: list[str] = field(factory=list)


class FakeCoordinator:
    """The worker's five calls. `down` makes it unreachable; `lose` loses the answers of carried-out calls.

    `gates` holds calls back until they are opened: "renew" before it is carried out, "renew answered" after.
    `refuse` gives an error to raise instead of an answer. `calls` counts what came in, `batches` keeps the sizes of
    bulk requests, `leases` what was asked.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.calls: Counter[str] = Counter()
        self.batches: dict[str, list[int]] = {"renew": [], "complete": [], "fail": []}
        self.leases: list[dict[str, Any]] = []
        self.down = False
        self.lose: Counter[str] = Counter()
        self.gates: dict[str, asyncio.Event] = {}
        self.refuse: dict[str, Callable[[Any], Exception | None]] = {}
        self._granted: dict[str, list[tuple[str, int]]] = {}
        self._changed = asyncio.Event()

    def add(self, kind: str, payload: object = None, job_id: str | None = None, queue: str = "default") -> Row:
        """Enqueue a job."""
        row = Row(job_id or f"job-{len(self.rows) + 1}", kind, to_json(payload), queue)
        self.rows[row.id] = row
        self._changed.set()
        return row

    def cancel(self, row: Row) -> None:
        """Cancel a job; its token dies."""
        self._end(row, "canceled", "canceled")

    def gate(self, name: str) -> asyncio.Event:
        """Hold a sort of call back until the event that is returned is set."""
        self.gates[name] = asyncio.Event()
        return self.gates[name]

    def expire(self) -> None:
        """Put the leases that ran out into the log."""
        for row in self.rows.values():
            if row.state == "running" and self._now() >= row.expires_at:
                self._end(row, "queued", "expired")

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds; looked at after each change."""
        async with asyncio.timeout(LONGEST_TEST_SECONDS):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    async def lease(self, worker: str, **asked: Any) -> list[Job]:
        """Grant due jobs of the kinds; a repeated request id gets what it still holds."""
        self.leases.append({"worker": worker, **asked})
        await self._enter("lease", asked)
        deadline = self._now() + asked["wait_seconds"]
        while not (granted := self._grant(worker, asked)) and (left := deadline - self._now()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(min(left, self._next_due())):
                    await self._changed.wait()
            except TimeoutError:
                self.expire()
            self._raise_if_down()
        return await self._leave("lease", [self._view(row) for row in granted])

    async def renew_many(self, renewals: Sequence[Renewal]) -> list[ItemResult]:
        """Move the expiries of leases that are held."""
        return await self._many("renew", renewals, self._renew)

    async def complete_many(self, completions: Sequence[Completion]) -> list[ItemResult]:
        """Record successes."""
        return await self._many("complete", completions, self._complete)

    async def fail_many(self, failures: Sequence[Failure]) -> list[ItemResult]:
        """Record failures; a failed job is due again after a second, unless its worker asks otherwise."""
        return await self._many("fail", failures, self._fail)

    async def release(self, job_id: str, token: int) -> None:
        """Give a job back."""
        await self._enter("release", job_id)
        row = self.rows[job_id]
        if not self._holds(row, token):
            raise StaleToken(Problem(code="stale_token", status=409))
        row.attempts -= 1
        self._end(row, "queued", "released")
        await self._leave("release", None)

    def _grant(self, worker: str, asked: dict[str, Any]) -> list[Row]:
        known = self._granted.get(asked["request_id"])
        if known is not None:
            return [self.rows[job_id] for job_id, token in known if self._holds(self.rows[job_id], token)]
        self.expire()
        due = [
            row
            for row in self.rows.values()
            if row.state in ("queued", "failed") and row.kind in asked["kinds"] and row.run_at <= self._now()
            if asked["queues"] is None or row.queue in asked["queues"]
        ]
        for row in due[: asked["max_jobs"]]:
            row.state, row.owner, row.token, row.attempts = "running", worker, row.token + 1, row.attempts + 1
            row.lease_seconds = asked["lease_seconds"]
            row.expires_at = self._now() + row.lease_seconds
            row.log.append("leased")
        granted = due[: asked["max_jobs"]]
        if granted:
            self._granted[asked["request_id"]] = [(row.id, row.token) for row in granted]
            self._changed.set()
        return granted

    def _renew(self, row: Row, renewal: Renewal) -> str | None:
        if self._now() >= row.expires_at:
            return "lease_expired"
        row.expires_at = self._now() + row.lease_seconds
        row.log.append("renewed")
        return None

    def _complete(self, row: Row, completion: Completion) -> None:
        row.result = completion.result
        self._end(row, "succeeded", "completed")

    def _fail(self, row: Row, failure: Failure) -> None:
        row.error = failure
        row.run_at = self._now() + (1.0 if failure.retry_in_seconds is None else failure.retry_in_seconds)
        self._end(row, "failed" if failure.retry else "dead", "failed")

    async def _many(self, name: str, items: Sequence[Any], rule: Callable[[Row, Any], str | None]) -> list[ItemResult]:
        self.batches[name].append(len(items))
        await self._enter(name, items)
        self.expire()
        return await self._leave(name, [self._one(name, each, rule) for each in items])

    def _one(self, name: str, item: Any, rule: Callable[[Row, Any], str | None]) -> ItemResult:
        row = self.rows.get(item.id)
        if row is None:
            return ItemResult(id=item.id, ok=False, problem=Problem(code="job_not_found", status=404))
        if name == "complete" and row.state == "succeeded" and row.token == item.token:
            return ItemResult(id=row.id, ok=True, state=row.state)
        code = rule(row, item) if self._holds(row, item.token) else "stale_token"
        if code is not None:
            detail = f"the lease with token {item.token} is over; the job is {row.state}"
            if row.token != item.token:
                detail = f"token {item.token} is not the job's current token {row.token}"
            return ItemResult(id=row.id, ok=False, problem=Problem(code=code, status=409, detail=detail))
        return ItemResult(id=row.id, ok=True, state=row.state, lease_token=row.token)

    async def _enter(self, name: str, asked: Any) -> None:
        self.calls[name] += 1
        self._changed.set()
        if name in self.gates:
            await self.gates[name].wait()
        self._raise_if_down()
        refusal = self.refuse[name](asked) if name in self.refuse else None
        if refusal is not None:
            raise refusal

    async def _leave(self, name: str, answer: Any) -> Any:
        if f"{name} answered" in self.gates:
            await self.gates[f"{name} answered"].wait()
        if self.lose[name]:
            self.lose[name] -= 1
            raise Unreachable("the answer was lost")
        await asyncio.sleep(0)
        return answer

    def _raise_if_down(self) -> None:
        if self.down:
            raise Unreachable("connection refused")

    def _holds(self, row: Row, token: int) -> bool:
        return row.state == "running" and row.token == token

    def _end(self, row: Row, state: str, word: str) -> None:
        row.state, row.owner = state, None
        row.log.append(word)
        self._changed.set()

    def _next_due(self) -> float:
        """Seconds until a lease runs out or a failed job comes due."""
        times = [row.expires_at for row in self.rows.values() if row.state == "running"]
        times += [row.run_at for row in self.rows.values() if row.state == "failed"]
        return max(0.001, min(times, default=float("inf")) - self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _view(self, row: Row) -> Job:
        return make_job(row.id, row.kind, row.payload, row.attempts, row.token, row.queue)


def make_job(
    job_id: str = "job-1",
    kind: str = "work",
    payload: bytes = b"null",
    attempts: int = 1,
    token: int = 1,
    queue: str = "default",
) -> Job:
    """A leased job as a client would show it."""
    return Job(
        id=job_id,
        kind=kind,
        queue=queue,
        priority=0,
        payload_raw=Raw(payload),
        state="running",
        attempts=attempts,
        max_attempts=5,
        retry_policy={},
        run_at=EPOCH,
        lease_owner="w",
        lease_expires_at=EPOCH,
        lease_token=token,
        result_raw=Raw(b"null"),
        error=None,
        idempotency_key=None,
        created_at=EPOCH,
        updated_at=EPOCH,
        finished_at=None,
    )


class Stage:
    """A worker named w on a fake coordinator, with the log lines it wrote."""

    def __init__(self, coordinator: FakeCoordinator, lines: list[dict[str, Any]], **settings: Any) -> None:
        self.coordinator = coordinator
        clock = asyncio.get_running_loop().time
        self.worker = Worker(coordinator, name="w", rng=random.Random(1), clock=clock, **settings)
        self.lines = lines
        self.serving: asyncio.Task | None = None

    def start(self) -> None:
        """Let the worker serve."""
        self.serving = asyncio.create_task(self.worker.serve())

    async def stop(self) -> None:
        """Stop the worker in good order."""
        await self.worker.stop()
        await self.serving

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in self.lines if line["event"] == event]


@pytest.fixture
def job() -> Callable[..., Job]:
    """Makes a leased job: job(job_id, kind, payload, attempts, token, queue)."""
    return make_job


@pytest.fixture
def play() -> Callable[..., None]:
    """Runs scene(stage) in virtual time; what else is given are the worker's settings. Real time with real=True."""

    def run(scene: Callable[[Stage], Coroutine[Any, Any, None]], *, real: bool = False, **settings: Any) -> None:
        async def main() -> None:
            stage = Stage(FakeCoordinator(), lines, **settings)
            async with asyncio.timeout(LONGEST_TEST_SECONDS if not real else 30):
                await scene(stage)
                if stage.serving is not None and not stage.serving.done():
                    await stage.stop()

        with capture_logs() as lines:
            if real:
                asyncio.run(main())
            else:
                virtual_time.run(main())

    return run


@pytest.fixture
def not_found() -> JobNotFound:
    """A refusal of a request as a whole, below 500."""
    return JobNotFound(Problem(code="not_found", status=404, detail="no such path"))
