"""The story of one run: faults come and go, everything comes to its end, and the judge closes the books."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from attrs import frozen

from eventjobs.testing.simulation.log_lines import heard_by
from eventjobs.testing.simulation.plan import Plan, plan_of
from eventjobs.testing.simulation.programs import ProgramLoop
from eventjobs.testing.simulation.world import World

LOOK_SECONDS = 0.25
CALM_SECONDS_MAX = 900.0
"""From the last fault until every job has ended."""
END_SECONDS_MAX = 40.0
"""For workers to stop in good order: their time of grace, and a little to hand over what is left."""
STOP_SECONDS_MAX = 3.0
"""For the coordinator to stop when nobody wants anything of it: nobody may still be waiting inside."""
LATE_JOBS, LATE_SECONDS = 10, 15.0
"""Jobs that come when there are no faults any more and workers have nothing to do."""


@frozen
class Run:
    """What came of a plan. `broken` is the promise that was not kept, None when all were; `lines` tell the story.

    `seconds` is virtual time; the other numbers say how much happened, `seen` how often what did.
    """

    plan: Plan
    broken: str | None
    digest: str
    lines: list[str]
    seconds: float
    jobs: int
    records: int
    expirations: int
    acknowledged: int
    refused: int
    seen: Counter[str]


def run_seed(seed: int, keep_all: bool = False) -> Run:
    """Run the plan of a seed. `keep_all` keeps the whole story, and not its end alone."""
    return run_plan(plan_of(seed), keep_all)


def run_plan(plan: Plan, keep_all: bool = False) -> Run:
    """Run a plan to its end, or to the first promise that is broken."""
    with asyncio.Runner(loop_factory=ProgramLoop) as runner:
        return runner.run(_run(plan, keep_all))


async def _run(plan: Plan, keep_all: bool) -> Run:
    world = World(plan, asyncio.get_running_loop(), keep_all)
    with heard_by(world.hear):
        story = asyncio.ensure_future(_tell(world))
        found = asyncio.ensure_future(world.verdict.found())
        await asyncio.wait((story, found), return_when=asyncio.FIRST_COMPLETED)
        run = _outcome(world)
        error = story.exception() if story.done() else None
        await world.close()
    if error is not None:
        raise error
    return run


async def _tell(world: World) -> None:
    await _with_faults(world)
    await _without_faults(world)
    await _to_the_end(world)
    world.judge.close(world.machine.disk.store)


async def _with_faults(world: World) -> None:
    plan = world.plan
    world.add_producer("producer-1", plan.jobs // 2, plan.fault_seconds / 2)
    world.add_producer("producer-2", plan.jobs - plan.jobs // 2, plan.fault_seconds / 2)
    world.add_observer()
    operator = world.add_operator()
    if not plan.gentle:
        world.add_visitor()
    world.machine.start()
    for place in (*world.workplaces, *world.stations):
        place.start()
    disruption = world.disruption()
    running = asyncio.ensure_future(disruption.run())
    ends = world.loop.time() + plan.fault_seconds
    await _until(world, lambda: world.loop.time() >= ends, plan.fault_seconds + 1, "time to pass")
    running.cancel()
    operator.retire()
    disruption.end()


async def _without_faults(world: World) -> None:
    """Every job comes to an end; so do some more, which meet workers that have nothing to do."""
    await _until(world, world.all_ended, CALM_SECONDS_MAX, "the end of every job")
    world.add_producer("producer-3", LATE_JOBS, LATE_SECONDS).start()
    await _until(world, world.all_ended, CALM_SECONDS_MAX, "the end of the late jobs")
    expirations = world.judge.logbook.expirations
    world.verdict.hold(not world.plan.gentle or expirations == 0, f"{expirations} attempts were lost for no reason")


async def _to_the_end(world: World) -> None:
    """Everybody stops in good order, and nobody holds anything."""
    running = world.judge.conduct.running
    await _until(world, lambda: not any(running.values()), 2 * LOOK_SECONDS, "workers to be idle")
    world.ending = True
    for place in world.workplaces:
        place.retired = True
        place.stop()
    await _until(world, world.no_worker_left, END_SECONDS_MAX, "the workers to stop")
    for station in world.stations:
        station.retire()
    await asyncio.sleep(LOOK_SECONDS)
    world.machine.retired = True
    world.machine.stop()
    await _until(world, lambda: world.machine.running is None, STOP_SECONDS_MAX, "the coordinator to stop")


async def _until(world: World, true: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = world.loop.time() + seconds
    while not true():
        if world.loop.time() >= deadline:
            return world.verdict.breach(f"{seconds:g} s were not enough for {what}: {world.what_is_open()}")
        await asyncio.sleep(LOOK_SECONDS)
        world.calm.look()


def _outcome(world: World) -> Run:
    logbook, ledger = world.judge.logbook, world.judge.ledger
    return Run(
        plan=world.plan,
        broken=world.verdict.broken,
        digest=world.journal.digest,
        lines=world.journal.lines,
        seconds=world.loop.elapsed,
        jobs=len(logbook.lives),
        records=logbook.size,
        expirations=logbook.expirations,
        acknowledged=ledger.acknowledged,
        refused=ledger.refusals.total(),
        seen=world.journal.seen + Counter({f"refused: {code}": n for code, n in ledger.refusals.items()}),
    )
