"""A crowd of clients that fight over a few jobs, so that as much as can be happens at once.

They know each other's jobs and tokens: they renew, settle and release with tokens that are current, old or guessed,
cancel, requeue, ask for the same again, and come too late. What each does is drawn from a seed; what comes of it
depends on who is faster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from attrs import define, field, frozen

from eventjobs.testing.histories.clients import NotSent, Outcome, RecordingClient
from eventjobs.testing.histories.operations import Answer, Ask, Lost, Refusal
from eventjobs.testing.histories.recorder import Recorder

MOVES = {"enqueue": 6, "lease": 16, "hold": 45, "meddle": 6, "look": 10, "operate": 6}
"""What a client does next, and how often in proportion. To hold is to use a lease, to meddle to show a wrong token."""
HOLDERS = {"renew": 6, "complete": 1, "fail": 2, "release": 2}
MEDDLERS = {"renew": 3, "complete": 3, "fail": 2, "release": 2}
POLICIES = (
    {"type": "constant", "base": 0},
    {"type": "constant", "base": 0.05},
    {"type": "linear", "base": 0.02},
    {"type": "exponential", "base": 0.02, "jitter": 0.5},
)
ENDED = ("succeeded", "canceled")
CONTENDED, NEGLECTED = "contended", "neglected"
"""Kinds of jobs: those whose leases everybody uses, and those whose leases mostly run out."""
LOOK_SECONDS = 0.005
AGAIN_MAX = 10
"""How often a request whose answer was lost is sent again."""


@frozen
class Habits:
    """How a crowd goes about it. Spans of seconds are drawn from evenly; a lease is at least 0.1 seconds long.

    A job is left for a new one once `farewells` were asked of it after its end, or `operations_max` in all.
    """

    clients: int = 10
    jobs: int = 4
    lease_seconds: tuple[float, float] = (0.1, 0.25)
    pause_seconds: tuple[float, float] = (0, 0.01)
    patience_seconds: tuple[float, float] = (60, 60)
    farewells: int = 5
    operations_max: int = 150


@define(eq=False)
class Place:
    """One of the jobs that the crowd fights over: its key, its request, and what is known of it."""

    key: str
    job: dict[str, Any]
    job_id: str | None = None
    state: str = ""
    token: int = 0
    expires_at: int = 0
    operations: int = 0
    farewells: int = 0


@define(eq=False)
class Crowd:
    """The clients of one run. `up` is set while there is a coordinator to talk to; `seed` draws what they do."""

    url: str
    seed: int
    habits: Habits = field(factory=Habits)
    recorder: Recorder = field(factory=Recorder)
    up: asyncio.Event = field(factory=asyncio.Event, init=False)
    going: bool = field(default=True, init=False)
    places: list[Place] = field(factory=list, init=False)
    _chance: random.Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self.places = [self._new_place(number) for number in range(self.habits.jobs)]
        self.up.set()

    async def run(self, disturb: Callable[[Crowd], Awaitable[None]]) -> None:
        """Let the crowd go on until `disturb` is done, then look at every job once more.

        Raises what a client or `disturb` raises.
        """
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            names = [f"client-{number}" for number in range(self.habits.clients)]
            clients = [RecordingClient(name, self.url, session, self.recorder) for name in names]
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(_Member(self, client, random.Random(f"{self.seed}/{number}")).live())
                await disturb(self)
                self.going = False
            for job_id in self.recorder.job_ids():
                await clients[0].ask(job_id, Ask(name="get"))

    async def until(self, what: Callable[[], bool], seconds_max: float = 60) -> None:
        """Wait until something is so. Raises TimeoutError."""
        async with asyncio.timeout(seconds_max):
            while not what():  # noqa: ASYNC110 - whether it is so may be for a clock to say
                await asyncio.sleep(LOOK_SECONDS)

    async def recorded(self, count: int) -> None:
        """Wait until so many more operations were recorded."""
        goal = len(self.recorder) + count
        await self.until(lambda: len(self.recorder) >= goal)

    def saw(self, document: Mapping[str, Any]) -> None:
        """Learn from a job's document what the others may want to know."""
        for place in self.places:
            if document.get("idempotency_key") == place.key:
                place.job_id = document["id"]
                place.state = document["state"]
                place.token = max(place.token, document["lease_token"])
                place.expires_at = max(place.expires_at, document["lease_expires_at"] or 0)

    def place(self, chance: random.Random) -> Place:
        """A job for the next operation: a new one where the old one has seen enough."""
        number = chance.randrange(len(self.places))
        place = self.places[number]
        place.operations += 1
        place.farewells += place.state in ENDED
        if place.farewells > self.habits.farewells or place.operations > self.habits.operations_max:
            place = self.places[number] = self._new_place(number)
        return place

    def _new_place(self, number: int) -> Place:
        key = f"job-{number}-{self._chance.randrange(10**9)}"
        job = {
            "kind": self._chance.choice((CONTENDED, NEGLECTED)),
            "payload": key,
            "idempotency_key": key,
            "max_attempts": self._chance.randint(1, 6),
            "retry_policy": self._chance.choice(POLICIES),
            "delay_seconds": self._chance.choice((0, 0, 0.05)),
        }
        return Place(key, job)


@define(eq=False)
class _Member:
    """One client of the crowd. `held` are the leases it was given, (job id, token, expiry), over or not."""

    crowd: Crowd
    client: RecordingClient
    chance: random.Random
    held: list[tuple[str, int, int]] = field(factory=list)
    count: int = 0

    async def live(self) -> None:
        """One move after another."""
        while self.crowd.going:
            await self.crowd.up.wait()
            (move,) = self.chance.choices(list(MOVES), MOVES.values())
            await getattr(self, f"_{move}")()
            await asyncio.sleep(self.chance.uniform(*self.crowd.habits.pause_seconds))

    async def _enqueue(self) -> None:
        place = self.crowd.place(self.chance)
        job = place.job if self.chance.random() < 0.9 else {**place.job, "kind": "another"}
        await self._ask(place.key, Ask(name="enqueue", job=job))

    async def _lease(self) -> None:
        self.count += 1
        name = f"{self.client.name}/{self.count}"
        ask = Ask(name="lease", worker=name, request_id=str(self.count), seconds=self._lease_seconds())
        more = {"max_jobs": self.chance.choice((1, 1, 2)), "wait_seconds": self.chance.choice((0, 0, 0.1))}
        for _ in range(AGAIN_MAX):
            try:
                jobs = await self.client.lease(ask, **more, patience_seconds=self._patience())
            except NotSent:
                await self._pause()
                continue
            if not isinstance(jobs, Lost):
                for job in jobs:
                    if job["kind"] == CONTENDED or self.chance.random() < 0.1:
                        self.crowd.saw(job)
                        self.held.append((job["id"], job["lease_token"], job["lease_expires_at"]))
                if self.chance.random() < 0.9:
                    return

    async def _hold(self) -> None:
        held = self._choose_lease()
        if held is None:
            return
        job_id, token, expiry = held
        if self.chance.random() < 0.3:  # slower than its lease
            await asyncio.sleep(max(0, expiry - self.crowd.recorder.now()) / 1_000_000)
        (name,) = self.chance.choices(list(HOLDERS), HOLDERS.values())
        outcome = await self._settle(name, job_id, token)
        over = isinstance(outcome, Refusal) or (name != "renew" and isinstance(outcome, Answer))
        if over and self.chance.random() < 0.8:
            self.held = [each for each in self.held if each != held]
        self.held = self.held[-3:]

    def _choose_lease(self) -> tuple[str, int, int] | None:
        """One of its own, mostly the newest, or one that another may use at the same time."""
        if self.held and self.chance.random() < 0.7:
            return self.held[-1] if self.chance.random() < 0.7 else self.chance.choice(self.held)
        place = self.crowd.place(self.chance)
        if place.job_id is None or (place.job["kind"] == NEGLECTED and self.chance.random() < 0.9):
            return None
        return place.job_id, place.token, place.expires_at

    async def _meddle(self) -> None:
        place = self.crowd.place(self.chance)
        if place.job_id is not None:
            (name,) = self.chance.choices(list(MEDDLERS), MEDDLERS.values())
            await self._settle(name, place.job_id, max(0, place.token + self.chance.choice((-2, -1, -1, 0, 1))))

    async def _look(self) -> None:
        place = self.crowd.place(self.chance)
        if place.job_id is not None:
            await self._ask(place.job_id, Ask(name="get"))

    async def _operate(self) -> None:
        dead = [place for place in self.crowd.places if place.state == "dead"]
        place = self.chance.choice(dead) if dead else self.crowd.place(self.chance)
        if place.job_id is not None:
            name = "cancel" if self.chance.random() < (0.6 if place.state in ENDED else 0.1) else "requeue"
            await self._ask(place.job_id, Ask(name=name))

    async def _settle(self, name: str, job_id: str, token: int) -> Outcome | None:
        self.count += 1
        said = f"{self.client.name}, {self.count}"
        match name:
            case "renew":
                seconds = self.chance.choice((None, self._lease_seconds()))
                ask = Ask(name=name, token=token, seconds=seconds)
            case "complete":
                ask = Ask(name=name, token=token, result=said)
            case "fail":
                delay = self.chance.choice((None, None, 0.03))
                ask = Ask(name=name, token=token, error=said, retry=self.chance.random() < 0.8, delay_seconds=delay)
            case "release":
                return await self._ask(job_id, Ask(name=name, token=token))
        return await self._ask(job_id, ask, many=self.chance.random() < 0.3)

    async def _ask(self, target: str, ask: Ask, many: bool = False) -> Outcome | None:
        """Ask, and again while the answer is lost; the last outcome, None when it was never sent."""
        outcome = None
        for _ in range(AGAIN_MAX):
            try:
                if many:
                    (outcome,) = await self.client.ask_many([(target, ask)], self._patience())
                else:
                    outcome = await self.client.ask(target, ask, self._patience())
            except NotSent:
                await self._pause()
                continue
            if isinstance(outcome, Answer):
                self.crowd.saw(outcome.document)
            if not isinstance(outcome, Lost) or self.chance.random() < 0.3:
                break
        return outcome

    async def _pause(self) -> None:
        """Wait for a coordinator to talk to. One that was just killed may not be known to be gone."""
        await asyncio.sleep(self.chance.uniform(0.01, 0.05))
        await self.crowd.up.wait()

    def _lease_seconds(self) -> float:
        return round(self.chance.uniform(*self.crowd.habits.lease_seconds), 3)

    def _patience(self) -> float:
        return self.chance.uniform(*self.crowd.habits.patience_seconds)
