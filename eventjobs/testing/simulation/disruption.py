"""Disruption: faults that come to pass at random moments while the first phase lasts, and the end of all of them.

A fault of each sort in plan.FAULTS is one method here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.network import Network
from eventjobs.testing.simulation.plan import CALM, Plan
from eventjobs.testing.simulation.programs import Program, ProgramLoop
from eventjobs.testing.simulation.serving import Machine
from eventjobs.testing.simulation.stations import Station
from eventjobs.testing.simulation.working import Workplace

FREEZE_SECONDS_MAX = 15.0
CUT_SECONDS_MAX = 15.0
FULL_SECONDS_MAX = 8.0
SLOW_SECONDS_MAX = 10.0
SLOW_COMMIT_SECONDS = (0.05, 1.0)
JUMPS_SECONDS = (0.5, 20.0, 600.0, 10_800.0)


class Disruption:
    """Brings faults about, and ends them."""

    def __init__(
        self,
        loop: ProgramLoop,
        plan: Plan,
        journal: Journal,
        network: Network,
        machine: Machine,
        workplaces: Sequence[Workplace],
        stations: Sequence[Station],
    ) -> None:
        self._loop, self._plan, self._journal = loop, plan, journal
        self._network, self._machine = network, machine
        self._workplaces, self._stations = workplaces, stations
        self._rng: Random = plan.rng("faults")

    async def run(self) -> None:
        """Have one fault after another until canceled."""
        self._network.weather = self._plan.weather
        while self._plan.faults:
            await asyncio.sleep(self._rng.expovariate(1 / self._plan.fault_gap_seconds))
            fault = self._rng.choice(self._plan.faults)
            self._journal.note("fault", fault, f"fault: {fault}")
            _FAULTS[fault](self)
            self._machine.disturb()

    def end(self) -> None:
        """End every fault: from now on the world is as it should be."""
        self._journal.note("fault", "none from here on")
        self._network.weather = CALM
        self._network.cut_off.clear()
        self._machine.disk.calm_down()
        self._machine.disturb()
        for program in self._loop.programs:
            program.thaw()

    # Workers and producers

    def _freeze_worker(self) -> None:
        self._freeze(self._rng.choice(self._workplaces).program)

    def _kill_worker(self) -> None:
        self._rng.choice(self._workplaces).kill()

    def _stop_worker(self) -> None:
        self._rng.choice(self._workplaces).stop()

    def _kill_producer(self) -> None:
        self._rng.choice(self._stations).kill()

    def _cut_off(self) -> None:
        names = [place.name for place in (*self._workplaces, *self._stations)]
        chosen = self._rng.sample(names, self._rng.randint(1, len(names)))
        self._network.cut_off.update(chosen)
        self._later(CUT_SECONDS_MAX, lambda: self._network.cut_off.difference_update(chosen))

    # The coordinator

    def _freeze_coordinator(self) -> None:
        self._freeze(self._machine.program)

    def _kill_coordinator(self) -> None:
        self._machine.kill()

    def _stop_coordinator(self) -> None:
        self._machine.stop()

    def _kill_before_commit(self) -> None:
        self._machine.disk.fates.append("lost")

    def _kill_after_commit(self) -> None:
        self._machine.disk.fates.append("kept")

    def _commit_unknown(self) -> None:
        self._machine.disk.fates.append(self._rng.choice(["unknown lost", "unknown kept"]))

    # Disk and clock

    def _disk_full(self) -> None:
        self._machine.disk.full = True
        self._later(FULL_SECONDS_MAX, lambda: setattr(self._machine.disk, "full", False))

    def _disk_nearly_full(self) -> None:
        self._machine.disk.nearly_full = True
        self._later(FULL_SECONDS_MAX, lambda: setattr(self._machine.disk, "nearly_full", False))

    def _disk_slow(self) -> None:
        self._machine.disk.commit_seconds = SLOW_COMMIT_SECONDS
        self._later(SLOW_SECONDS_MAX, self._machine.disk.hurry)

    def _clock_jump(self) -> None:
        most = self._rng.choice(JUMPS_SECONDS)
        self._machine.clocks.jump(self._rng.uniform(-most, most))

    def _freeze(self, program: Program | None) -> None:
        if program is not None:
            program.freeze()
            self._later(FREEZE_SECONDS_MAX, program.thaw)

    def _later(self, most_seconds: float, end: Callable[[], object]) -> None:
        self._loop.after(self._rng.uniform(0, most_seconds), self._end_one, end)

    def _end_one(self, end: Callable[[], object]) -> None:
        self._machine.disturb()
        end()


_FAULTS: dict[str, Callable[[Disruption], None]] = {
    "freeze worker": Disruption._freeze_worker,
    "kill worker": Disruption._kill_worker,
    "stop worker": Disruption._stop_worker,
    "kill producer": Disruption._kill_producer,
    "cut off": Disruption._cut_off,
    "freeze coordinator": Disruption._freeze_coordinator,
    "kill coordinator": Disruption._kill_coordinator,
    "stop coordinator": Disruption._stop_coordinator,
    "kill before commit": Disruption._kill_before_commit,
    "kill after commit": Disruption._kill_after_commit,
    "commit unknown": Disruption._commit_unknown,
    "disk full": Disruption._disk_full,
    "disk nearly full": Disruption._disk_nearly_full,
    "disk slow": Disruption._disk_slow,
    "clock jump": Disruption._clock_jump,
}
