"""The plan of a run, drawn from its seed: who is there, how bad the weather is, and which faults come to pass.

Seeds differ in which faults they have at all: a run with few sorts of them gets further into each.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from attrs import frozen

JOBS_MIN, JOBS_MAX = 50, 70
FAULT_SECONDS_MIN, FAULT_SECONDS_MAX = 30.0, 60.0

FAULTS = (
    "freeze worker",
    "kill worker",
    "stop worker",
    "kill producer",
    "cut off",
    "freeze coordinator",
    "kill coordinator",
    "stop coordinator",
    "kill before commit",
    "kill after commit",
    "commit unknown",
    "disk full",
    "disk nearly full",
    "disk slow",
    "clock jump",
)
"""The sorts of faults beside the weather; disruption.py knows what each is."""


@frozen
class Weather:
    """What the network does to a message.

    Every message takes about `delay_seconds`, or with the probability `slow` up to `slow_seconds`. Requests and
    answers are lost with the probabilities given, `silent` of them without anybody noticing; the others end the
    connection. `lost_grants` are answers to lease requests, of which one at most is lost under each request id.
    `doubled` requests arrive twice.
    """

    delay_seconds: float = 0.002
    slow: float = 0.0
    slow_seconds: float = 0.0
    lost_requests: float = 0.0
    lost_answers: float = 0.0
    lost_grants: float = 0.0
    silent: float = 0.0
    doubled: float = 0.0


CALM = Weather()
GENTLE = 0.2
"""How many of the plans are gentle."""
GENTLE_WEATHER = Weather(delay_seconds=0.005, lost_grants=0.4, silent=0.5, doubled=0.25)
GENTLE_FAULTS = ("stop worker",)
LEASES_SECONDS = (3.0, 6.0, 15.0)
GENTLE_LEASES_SECONDS = (6.0, 8.0)
"""With shorter ones, patience for an answer and a pause before the repeat may take a whole lease; with longer ones,
patience for an answer may take all the time that a stopping worker has for giving back what it was granted last."""


@frozen
class WorkerPlan:
    """How a worker is set up. `queues` None means any, `kinds` are those it has handlers for."""

    name: str
    concurrency: int
    lease_seconds: float
    poll_seconds: float
    grace_seconds: float
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...]


@frozen
class Plan:
    """Everything that is set before a run starts. `fault_gap_seconds` is the mean time from one fault to the next.

    `gentle`: there are no faults but lost grants, doubled requests and workers that are stopped in good order.
    Nothing of that costs an attempt.
    """

    seed: int
    jobs: int
    fault_seconds: float
    fault_gap_seconds: float
    weather: Weather
    faults: tuple[str, ...]
    workers: tuple[WorkerPlan, ...]
    gentle: bool = False

    def rng(self, purpose: str) -> Random:
        """A source of chance for one purpose: what one part draws does not change what others do."""
        return Random(f"{self.seed}:{purpose}")


QUEUES = ("default", "bulk", "mail")
KINDS = ("steady", "flaky", "doomed", "hopeless", "stubborn", "long")


def plan_of(seed: int) -> Plan:
    """The plan a seed stands for."""
    rng = Random(f"{seed}:plan")
    gentle = rng.random() < GENTLE
    leases = GENTLE_LEASES_SECONDS if gentle else LEASES_SECONDS
    return Plan(
        seed=seed,
        jobs=rng.randint(JOBS_MIN, JOBS_MAX),
        fault_seconds=rng.uniform(FAULT_SECONDS_MIN, FAULT_SECONDS_MAX),
        fault_gap_seconds=rng.choice([1.5, 3.0, 6.0]),
        weather=GENTLE_WEATHER if gentle else _weather(rng),
        faults=GENTLE_FAULTS if gentle else tuple(fault for fault in FAULTS if rng.random() < 0.5),
        workers=tuple(_worker(rng, number, leases) for number in range(1, rng.randint(2, 4) + 1)),
        gentle=gentle,
    )


def _weather(rng: Random) -> Weather:
    def sometimes(most: float) -> float:
        return rng.uniform(0.0, most) if rng.random() < 0.6 else 0.0

    return Weather(
        delay_seconds=rng.choice([0.0005, 0.005, 0.03]),
        slow=sometimes(0.1),
        slow_seconds=rng.choice([0.5, 3.0, 12.0]),
        lost_requests=sometimes(0.15),
        lost_answers=sometimes(0.15),
        silent=rng.choice([0.0, 0.5, 1.0]),
        doubled=sometimes(0.2),
    )


def _worker(rng: Random, number: int, leases: Sequence[float]) -> WorkerPlan:
    """The first worker takes every job there is; others may be choosy."""
    queues, kinds = None, KINDS
    if number > 1 and rng.random() < 0.4:
        queues = tuple(rng.sample(QUEUES, rng.randint(1, len(QUEUES))))
    if number > 1 and rng.random() < 0.3:
        kinds = tuple(sorted(rng.sample(KINDS, rng.randint(1, len(KINDS)))))
    return WorkerPlan(
        name=f"worker-{number}",
        concurrency=rng.randint(2, 8),
        lease_seconds=rng.choice(leases),
        poll_seconds=rng.choice([2.0, 5.0, 20.0]),
        grace_seconds=rng.choice([0.5, 4.0]),
        queues=queues,
        kinds=kinds,
    )
