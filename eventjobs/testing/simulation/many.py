"""Many seeds, side by side on several cores. What is broken is told with the way to see it again."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from attrs import define, field, frozen

from eventjobs.testing.simulation.story import run_seed

CHUNK = 10
"""Seeds that one process is given at a time."""
COMMAND = "python -m eventjobs.testing.simulation"


@frozen
class Broken:
    """A seed whose run broke a promise, what it was, and the last lines of the story."""

    seed: int
    what: str
    lines: list[str]

    def told(self, lines: int) -> str:
        """The end of its story, and how to have it all."""
        end = [f"    {line}" for line in self.lines[-lines:]] if lines else []
        return "\n".join([f"seed {self.seed} is broken: {self.what}", *end, f"    see it again: {self.command}"])

    @property
    def command(self) -> str:
        """What runs this seed alone."""
        return f"{COMMAND} --first {self.seed}"


@define
class Tally:
    """What many runs came to. `seconds` is virtual time, `seen` counts what happened in them."""

    seeds: int = 0
    jobs: int = 0
    records: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(factory=Counter)
    broken: list[Broken] = field(factory=list)

    def add(self, other: Tally) -> None:
        """Take in what others came to."""
        self.seeds += other.seeds
        self.jobs += other.jobs
        self.records += other.records
        self.seconds += other.seconds
        self.seen += other.seen
        self.broken += other.broken


def run_range(seeds: range) -> Tally:
    """Run these seeds one after another. A run that ends with an exception is a broken one."""
    tally = Tally()
    for seed in seeds:
        tally.seeds += 1
        try:
            run = run_seed(seed)
        except Exception:  # noqa: BLE001 - one seed must not keep the others from being run; it is told
            tally.broken.append(Broken(seed, f"the simulation failed\n{traceback.format_exc()}", []))
            continue
        tally.jobs += run.jobs
        tally.records += run.records
        tally.seconds += run.seconds
        tally.seen += run.seen
        if run.broken is not None:
            tally.broken.append(Broken(seed, run.broken, run.lines))
    return tally


def run_many(first: int, count: int, processes: int, tell: Callable[[Tally, float], None]) -> Tally:
    """Run `count` seeds from `first`. `tell` hears of the tally so far and the real seconds it took."""
    total, began = Tally(), time.monotonic()
    for tally in _tallies(_chunks(first, count), processes):
        total.add(tally)
        tell(total, time.monotonic() - began)
    return total


def _tallies(chunks: list[range], processes: int) -> Iterator[Tally]:
    if processes == 1:
        yield from map(run_range, chunks)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_range, chunks)


def _chunks(first: int, count: int) -> list[range]:
    end = first + count
    return [range(start, min(start + CHUNK, end)) for start in range(first, end, CHUNK)]
