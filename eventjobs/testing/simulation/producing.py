"""Those around the workers: producers, an operator, an observer, a visitor. Each is a program with the real client."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from random import Random
from typing import TypeVar

from attrs import evolve, frozen

from eventjobs.client.client import Client
from eventjobs.client.errors import EventjobsError, IdempotencyKeyReused, IllegalTransition, Refused, StaleToken
from eventjobs.client.requests import NewJob
from eventjobs.client.settings import Retry, Timeouts
from eventjobs.testing.simulation.network import Connections, Network
from eventjobs.testing.simulation.plan import KINDS, QUEUES, Plan
from eventjobs.testing.simulation.programs import Program
from eventjobs.testing.simulation.verdict import Verdict
from eventjobs.worker.outage import is_away

T = TypeVar("T")

URL = "http://coordinator.simulated"
ANSWER_SECONDS = 2.0
POLICIES = (
    None,
    {"type": "constant", "base": 0.5},
    {"type": "linear", "base": 0.5, "max_delay": 2},
    {"type": "exponential", "base": 0.5, "max_delay": 4, "jitter": 0.5},
)
AGAIN, CHANGED = 0.2, 0.4
"""How often a producer asks for something again, and how often differently then."""
CHANGED_PRIORITY = 50
RUN_AT, DELAYED = 0.1, 0.2
"""How many jobs are to run at a certain time, and how many of the others after a delay."""
VISIT_SECONDS, PATIENCE_SECONDS, VISIT_LEASE_SECONDS = 10.0, 1.5, 2.0
"""How long a visitor asks the coordinator to wait, how long it waits itself in the mean, and its leases."""
LOOKS = ("/stats", "events", "jobs", "dead", "job")


@frozen
class Order:
    """Jobs to be enqueued in one request, after a pause. `changed`: the last one's key was used for another before."""

    pause_seconds: float
    jobs: tuple[NewJob, ...]
    changed: bool = False


def client_of(program: Program, network: Network) -> Client:
    """A client that asks once, in a program."""
    return Client(
        URL,
        actor=program.name,
        retry=Retry.never(),
        timeouts=Timeouts(answer_seconds=ANSWER_SECONDS),
        session=functools.partial(Connections, network, program),
    )


async def insist(rng: Random, ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, after as many tries as it takes. Raises Refused when the coordinator says no."""
    while True:
        try:
            return await ask()
        except EventjobsError as error:
            if not is_away(error):
                raise
        await asyncio.sleep(rng.uniform(0.1, 1.0))


def orders_of(plan: Plan, producer: str, jobs: int, seconds: float) -> list[Order]:
    """What a producer asks for within about so many seconds: so many jobs, some of them twice."""
    rng = plan.rng(f"{producer} orders")
    fresh: list[Order] = []
    orders: list[Order] = []
    made = 0
    while made < jobs:
        size = min(jobs - made, rng.choice([1, 1, 1, 2, 3, 8]))
        specs = tuple(_job(rng, f"{producer}.{made + number}") for number in range(size))
        made += size
        fresh.append(Order(rng.uniform(0, 2 * seconds * size / jobs), specs))
        orders.append(fresh[-1])
        if rng.random() < AGAIN:
            orders.append(_again(rng, rng.choice(fresh)))
    return orders


def _again(rng: Random, order: Order) -> Order:
    """The same once more; or a new job and the same, the last of which is to be changed."""
    if rng.random() >= CHANGED:
        return Order(rng.uniform(0, 1), order.jobs)
    new = _job(rng, f"{order.jobs[-1].idempotency_key}.never")
    return Order(rng.uniform(0, 1), (new, *order.jobs), changed=True)


def _job(rng: Random, key: str) -> NewJob:
    kind = rng.choices(KINDS, weights=(6, 3, 1, 1, 2, 2))[0]
    longest = 12.0 if kind == "long" else 2.0
    payload = {
        "seconds": round(rng.uniform(0.0, longest), 3),
        "failures": rng.randint(1, 2),
        "retry_in": rng.choice([None, 0.0, 1.5]),
        "run_in": round(rng.uniform(-10.0, 15.0), 6) if rng.random() < RUN_AT else None,
    }
    job = NewJob(
        kind=kind,
        payload=payload,
        queue=rng.choice([None, *QUEUES]),
        priority=rng.choice([None, -1, 0, 3]),
        max_attempts=rng.choice([1, 2, 3, 4]),
        retry_policy=rng.choice(POLICIES),
        idempotency_key=key,
    )
    if payload["run_in"] is None and rng.random() < DELAYED:
        return evolve(job, delay_seconds=round(rng.uniform(0.0, 10.0), 3))
    return job


class Producer:
    """Works off orders, each until it is acknowledged. What is done is remembered beyond its program's end.

    A job that is to run at a certain time is given one by the coordinator's clock, as far as answers have told it.
    """

    def __init__(self, name: str, orders: list[Order], rng: Random, verdict: Verdict, known: list[str]) -> None:
        self.name = name
        self._orders, self._rng, self._verdict, self._known = orders, rng, verdict, known
        self._done = 0
        self._sent: dict[str, NewJob] = {}
        self._now: datetime | None = None

    @property
    def finished(self) -> bool:
        """Whether every order was acknowledged."""
        return self._done == len(self._orders)

    async def run(self, program: Program, network: Network) -> None:
        """Go on with the first order that is not known to be done."""
        client = client_of(program, network)
        while not self.finished:
            order = self._orders[self._done]
            await asyncio.sleep(order.pause_seconds)
            await self._place(client, order)
            self._done += 1

    async def _place(self, client: Client, order: Order) -> None:
        asked = [self._sent.setdefault(job.idempotency_key, self._scheduled(job)) for job in order.jobs]
        if order.changed:
            asked[-1] = evolve(asked[-1], priority=CHANGED_PRIORITY)
        try:
            if len(asked) == 1:
                jobs = [await insist(self._rng, lambda: _enqueue(client, asked[0]))]
            else:
                jobs = (await insist(self._rng, lambda: client.enqueue_many(asked))).jobs
        except IdempotencyKeyReused:
            self._verdict.hold(order.changed, f"{self.name} was refused a repeat of the same request")
            return
        self._verdict.hold(not order.changed, f"{self.name} got a different job in under a key that was used before")
        self._known.extend(job.id for job in jobs)
        self._now = max(job.updated_at for job in jobs)

    def _scheduled(self, job: NewJob) -> NewJob:
        run_in = job.payload["run_in"]
        if run_in is None or self._now is None:
            return job
        return evolve(job, run_at=self._now + timedelta(seconds=run_in))


async def _enqueue(client: Client, job: NewJob) -> object:
    return await client.enqueue(
        job.kind,
        job.payload,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        run_at=job.run_at,
        delay_seconds=job.delay_seconds,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key,
    )


async def operate(program: Program, network: Network, rng: Random, known: list[str], pause_seconds: float) -> None:
    """Cancel and requeue jobs now and then."""
    client = client_of(program, network)
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * pause_seconds))
        if not known:
            continue
        job_id = rng.choice(known)
        ask = rng.choices(
            [
                lambda job_id=job_id: client.cancel(job_id, "not wanted"),
                lambda job_id=job_id: client.requeue(job_id),
                lambda: client.requeue_dead(),
                lambda: client.requeue_dead(kind="doomed", limit=2),
            ],
            weights=(3, 3, 1, 1),
        )[0]
        try:
            await insist(rng, ask)
        except IllegalTransition:
            continue  # it has ended otherwise, or is not dead


async def visit(program: Program, network: Network, rng: Random, pause_seconds: float) -> None:
    """Ask for jobs, lose patience, and leave: a worker that is of no use. What it gets it gives back."""
    client = client_of(program, network)
    number = 0
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * pause_seconds))
        number += 1
        request = f"{program.name}-{rng.getrandbits(32):08x}-{number}"
        try:
            async with asyncio.timeout(rng.uniform(0, 2 * PATIENCE_SECONDS)):
                jobs = await client.lease(
                    program.name, lease_seconds=VISIT_LEASE_SECONDS, wait_seconds=VISIT_SECONDS, request_id=request
                )
            for job in jobs:
                await client.release(job.id, job.lease_token)
        except (TimeoutError, EventjobsError) as error:
            if isinstance(error, Refused) and error.status < 500 and not isinstance(error, StaleToken):
                raise


async def observe(program: Program, network: Network, rng: Random, known: list[str], pause_seconds: float) -> None:
    """Look at numbers, log and jobs now and then."""
    client = client_of(program, network)
    seen = 0
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * pause_seconds))
        try:
            match rng.choice(LOOKS):
                case "/stats":
                    await client.stats()
                case "events":
                    page = await client.events(after=seen, limit=50)
                    seen = page.events[-1].position if page.events else seen
                case "jobs":
                    await client.jobs_page(state=rng.choice(["queued", "running", "succeeded"]), limit=10)
                case "dead":
                    await client.dead_page(limit=10)
                case "job" if known:
                    await client.history(rng.choice(known))
        except EventjobsError as error:
            if isinstance(error, Refused) and error.status < 500:
                raise
