"""Programs on one event loop of `virtual_time`: frozen ones do nothing for now, killed ones for ever."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.testing.simulation.programs import ProgramLoop


@pytest.fixture
def play():
    """Runs scene(loop) in virtual time, and ends what programs it left."""

    def run(scene):
        async def main():
            loop = asyncio.get_running_loop()
            try:
                await scene(loop)
            finally:
                loop.end()
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)

        with asyncio.Runner(loop_factory=ProgramLoop) as runner:
            runner.run(main())

    return run


async def ticking(loop, ticks):
    """Notes the time each second, and what happens to it in the end."""
    try:
        while True:
            await asyncio.sleep(1)
            ticks.append(round(loop.elapsed))
    finally:
        ticks.append("finally")


def test_a_program_runs_like_any_task(play):
    """Its timers ring at their times."""

    async def scene(loop):
        ticks = []
        loop.program("a").spawn(ticking(loop, ticks))
        await asyncio.sleep(3.5)
        assert ticks == [1, 2, 3]

    play(scene)


def test_a_frozen_program_makes_up_for_it_when_it_thaws(play):
    """Nothing of it runs while it is frozen; what came due meanwhile runs at once afterwards, and once."""

    async def scene(loop):
        ticks, others = [], []
        program = loop.program("a")
        program.spawn(ticking(loop, ticks))
        loop.program("b").spawn(ticking(loop, others))
        await asyncio.sleep(1.5)
        program.freeze()
        await asyncio.sleep(5)
        assert (ticks, others, program.frozen) == ([1], [1, 2, 3, 4, 5, 6], True)
        program.thaw()
        await asyncio.sleep(1.2)
        assert (ticks, program.frozen) == ([1, 6, 8], False)

    play(scene)


def test_a_timer_that_is_canceled_when_it_has_come_due_does_not_ring(play):
    """What a thawing program cancels first does not run, though its time has come."""

    async def scene(loop):
        rang = []
        program = loop.program("a")

        async def main():
            second = loop.call_later(2, rang.append, "second")
            loop.call_later(1, second.cancel)
            await asyncio.sleep(10)

        program.spawn(main())
        await asyncio.sleep(0.5)
        program.freeze()
        await asyncio.sleep(5)
        program.thaw()
        await asyncio.sleep(1)
        assert rang == []

    play(scene)


def test_a_killed_program_has_no_last_word(play):
    """None of its code runs again, a `finally` as little as anything; thawing does not bring it back."""

    async def scene(loop):
        ticks, told = [], []
        program = loop.program("a")
        program.on_kill.append(lambda: told.append("killed"))
        program.spawn(ticking(loop, ticks))
        await asyncio.sleep(1.5)
        program.kill()
        program.kill()
        program.thaw()
        await asyncio.sleep(5)
        assert (ticks, told, program.frozen) == ([1], ["killed"], False)

    play(scene)


def test_what_a_program_starts_belongs_to_it(play):
    """Tasks of tasks, timers and callbacks of a killed program end with it."""

    async def scene(loop):
        happened = []

        async def child():
            loop.call_later(1, happened.append, "timer")
            await asyncio.sleep(2)
            happened.append("child")

        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(child())

        program = loop.program("a")
        program.spawn(main())
        program.call(happened.append, "called")
        await asyncio.sleep(0.5)
        program.kill()
        program.call(happened.append, "called again")
        await asyncio.sleep(5)
        assert happened == ["called"]

    play(scene)


def test_the_world_goes_on_whatever_becomes_of_who_asked_for_it(play):
    """What a program has put on its way, like a message, arrives after its end."""

    async def scene(loop):
        arrived = []

        async def main():
            loop.after(2, arrived.append, "message")
            loop.call_later(2, arrived.append, "its own timer")

        program = loop.program("a")
        program.spawn(main())
        await asyncio.sleep(1)
        program.kill()
        await asyncio.sleep(2)
        assert arrived == ["message"]

    play(scene)
