"""The world of one run: everybody is put in place, everything is seen and heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from eventjobs.domain.events import Record
from eventjobs.testing.simulation.calm import CalmWatch
from eventjobs.testing.simulation.disruption import Disruption
from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.judge import Judge
from eventjobs.testing.simulation.logbook import ENDED
from eventjobs.testing.simulation.messages import in_short, short
from eventjobs.testing.simulation.network import Network
from eventjobs.testing.simulation.plan import Plan
from eventjobs.testing.simulation.producing import Producer, observe, operate, orders_of, visit
from eventjobs.testing.simulation.programs import Program, ProgramLoop
from eventjobs.testing.simulation.serving import Machine
from eventjobs.testing.simulation.stations import Station
from eventjobs.testing.simulation.verdict import Verdict
from eventjobs.testing.simulation.working import Workplace

OPERATOR_SECONDS, OBSERVER_SECONDS, VISITOR_SECONDS = 4.0, 5.0, 2.5
"""The mean times between two actions."""
ERROR_LEVELS = ("error", "critical", "exception")
ERRORS_PLANNED = {"store_failed"}
"""Errors in the product's log that simulated disks make."""


class World:
    """Who and what there is in one run. `ending`: workers are stopping for good."""

    def __init__(self, plan: Plan, loop: ProgramLoop, keep_all: bool) -> None:
        self.plan, self.loop = plan, loop
        self.journal = journal = Journal(lambda: loop.elapsed, keep_all)
        self.verdict = verdict = Verdict(journal)
        self.judge = judge = Judge(verdict, loop.time)
        self.machine = Machine(loop, plan.rng("machine"), journal, self._committed)
        self.network = Network(loop, plan.rng("network"), journal, judge, self.machine)
        self.machine.network = self.network
        self.calm = CalmWatch(loop, self.machine, judge.logbook, verdict)
        self.workplaces = [
            Workplace(loop, self.network, plan, worker, judge.conduct, journal, verdict) for worker in plan.workers
        ]
        self.known: list[str] = []
        self.producers: list[Producer] = []
        self.stations: list[Station] = []
        self.ending = False
        loop.set_exception_handler(self._unexpected)

    # People

    def add_producer(self, name: str, jobs: int, seconds: float) -> Station:
        """Somebody who asks for so many jobs within about so many seconds."""
        orders = orders_of(self.plan, name, jobs, seconds)
        producer = Producer(name, orders, self.plan.rng(name), self.verdict, self.known)
        self.producers.append(producer)
        return self._add(name, lambda program: producer.run(program, self.network))

    def add_operator(self) -> Station:
        """Somebody who cancels and requeues."""
        rng = self.plan.rng("operator")
        return self._add("operator", lambda it: operate(it, self.network, rng, self.known, OPERATOR_SECONDS))

    def add_observer(self) -> Station:
        """Somebody who looks."""
        rng = self.plan.rng("observer")
        return self._add("observer", lambda it: observe(it, self.network, rng, self.known, OBSERVER_SECONDS))

    def add_visitor(self) -> Station:
        """Somebody who asks for jobs and leaves."""
        rng = self.plan.rng("visitor")
        return self._add("visitor", lambda program: visit(program, self.network, rng, VISITOR_SECONDS))

    def _add(self, name: str, main: Callable[[Program], Coroutine[Any, Any, None]]) -> Station:
        station = Station(self.loop, name, self.plan.rng(f"{name} restarts"), self.journal, main)
        self.stations.append(station)
        return station

    def disruption(self) -> Disruption:
        """What brings faults about."""
        return Disruption(
            self.loop, self.plan, self.journal, self.network, self.machine, self.workplaces, self.stations
        )

    # What can be known of it

    def all_ended(self) -> bool:
        """Whether everything that was to be asked for was, and has come to an end."""
        return all(producer.finished for producer in self.producers) and self.judge.logbook.open_jobs == 0

    def no_worker_left(self) -> bool:
        """Whether all workers have stopped."""
        return all(place.program is None for place in self.workplaces)

    def what_is_open(self) -> str:
        """What keeps it from the end, in words."""
        lives = self.judge.logbook.lives.items()
        jobs = [f"{short(job_id)} {life.state}" for job_id, life in lives if life.state not in ENDED]
        waiting = [producer.name for producer in self.producers if not producer.finished]
        places = [place.name for place in self.workplaces if place.program is not None]
        return ", ".join([*jobs, *waiting, *(places if self.ending else ())]) or "nothing else is open"

    # What is seen and heard

    def _committed(self, records: list[Record]) -> None:
        self.judge.committed(self.machine.disk.store, records)
        for record in records:
            self.journal.note("log", in_short(record), f"event: {record.event.type}")
        self.calm.committed(records)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.verdict.breach(f"unexpected: {context['message']}: {context.get('exception')!r}")

    def hear(self, level: str, event: str, facts: dict[str, Any]) -> None:
        """A log line of the product. One that tells of an error which nobody planned is a breach."""
        said = " ".join(f"{name}={value}" for name, value in facts.items() if name != "exc_info")
        self.journal.note("log line", f"{event} {said}", f"said: {event}")
        if level in ERROR_LEVELS and event not in ERRORS_PLANNED:
            self.verdict.breach(f"the product logged the error {event}: {said}")
        if event == "worker_stopped" and self.ending:
            self.verdict.hold(facts["held"] == 0, f"{facts['worker']} stopped and still held {facts['held']} jobs")

    async def close(self) -> None:
        """Let go of everything: nothing counts from here on."""
        self.journal.close()
        self.loop.set_exception_handler(lambda _, context: None)
        self.loop.end()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        self.machine.forget()
