"""Workers of the simulation: the real worker on the real client, with handlers whose every step is drawn beforehand."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random

from eventjobs.client.client import Client
from eventjobs.client.settings import Retry, Timeouts
from eventjobs.testing.simulation.conduct import Conduct
from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.messages import Item
from eventjobs.testing.simulation.network import Connections, Network
from eventjobs.testing.simulation.plan import Plan, WorkerPlan
from eventjobs.testing.simulation.programs import Program, ProgramLoop
from eventjobs.testing.simulation.verdict import Verdict
from eventjobs.worker import GiveUp, JobContext, RetryIn, Worker
from eventjobs.worker.settings import Settings

URL = "http://coordinator.simulated"
RESTART_SECONDS = (0.1, 5.0)
"""How long a place is empty after its worker has ended; one that is retired stays so."""
STUBBORN_SECONDS = 3.0
"""How long a stubborn handler goes on when it is told to stop."""


class Workplace:
    """One worker's place: the worker in it is started, frozen, killed, stopped and started again under one name."""

    def __init__(
        self,
        loop: ProgramLoop,
        network: Network,
        plan: Plan,
        worker: WorkerPlan,
        conduct: Conduct,
        journal: Journal,
        verdict: Verdict,
    ) -> None:
        self._loop, self._network, self._plan, self._worker_plan = loop, network, plan, worker
        self._conduct, self._journal, self._verdict = conduct, journal, verdict
        self._rng = plan.rng(f"{worker.name} restarts")
        self.name = worker.name
        self.program: Program | None = None
        self.retired = False
        self._worker: Worker | None = None
        self._starts = 0

    def start(self) -> None:
        """Start a worker, if there is none."""
        if self.program is None and not self.retired:
            self._starts += 1
            self._journal.note(self.name, "starts")
            self._conduct.running[self.name] = 0
            self.program = self._loop.program(self.name)
            self.program.spawn(self._work(self.program, self._plan.rng(f"{self.name} start {self._starts}")))

    def stop(self) -> None:
        """Ask the worker to stop in good order."""
        if self.program is not None and self._worker is not None:
            self._journal.note(self.name, "is asked to stop")
            self.program.call(self._worker.request_stop)

    def kill(self) -> None:
        """End the worker at once."""
        program, self.program, self._worker = self.program, None, None
        if program is not None:
            self._journal.note(self.name, "is killed")
            program.kill()
            self._restart_later()

    def _restart_later(self) -> None:
        self._loop.after(self._rng.uniform(*RESTART_SECONDS), self.start)

    async def _work(self, program: Program, rng: Random) -> None:
        settings = self._worker_plan
        client = Client(
            URL,
            retry=Retry.never(),
            timeouts=Timeouts(answer_seconds=Settings(lease_seconds=settings.lease_seconds).answer_seconds),
            session=functools.partial(Connections, self._network, program),
        )
        self._worker = worker = Worker(
            client,
            concurrency=settings.concurrency,
            name=settings.name,
            queues=settings.queues,
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.grace_seconds,
            poll_seconds=settings.poll_seconds,
            rng=rng,
            clock=self._loop.time,
        )
        for kind in settings.kinds:
            worker.handler(kind)(self._watched(_HANDLERS[kind]))
        try:
            await worker.serve()
        except Exception as error:  # noqa: BLE001 - nothing may end a worker but who asked it to stop
            self._verdict.breach(f"{self.name} ended with {error!r}")
        await client.close()
        self._journal.note(self.name, "has ended")
        if self.program is program:
            self.program = self._worker = None
            self._restart_later()

    def _watched(self, function: Callable[[JobContext], Awaitable[object]]) -> Callable[[JobContext], object]:
        async def handler(job: JobContext) -> object:
            item = Item(job.id, job.token)
            self._journal.note(self.name, f"runs {item} ({job.kind}, attempt {job.attempt})")
            self._conduct.handler_starts(self.name, item)
            how = "fails"
            try:
                result = await function(job)
                how = "succeeds"
                return result
            except asyncio.CancelledError:
                how = "is canceled"
                raise
            finally:
                self._journal.note(self.name, f"{item} {how}")
                self._conduct.handler_ends(self.name, item, canceled=how == "is canceled")

        return handler


async def _steady(job: JobContext) -> object:
    """Takes its time and succeeds."""
    await asyncio.sleep(job.payload["seconds"])
    return {"token": job.token, "attempt": job.attempt}


async def _flaky(job: JobContext) -> object:
    """Fails at its first attempts, and may say when to try again."""
    await asyncio.sleep(job.payload["seconds"])
    if job.attempt <= job.payload["failures"]:
        if job.payload["retry_in"] is not None:
            raise RetryIn(job.payload["retry_in"])
        raise ConnectionError("a service was away")
    return job.attempt


async def _doomed(job: JobContext) -> object:
    """Fails always."""
    await asyncio.sleep(job.payload["seconds"])
    raise ValueError("it cannot be done")


async def _hopeless(job: JobContext) -> object:
    """Knows that it is of no use."""
    await asyncio.sleep(job.payload["seconds"])
    raise GiveUp("no use in trying")


async def _stubborn(job: JobContext) -> object:
    """Goes on for a while when it is told to stop, and then has a result all the same."""
    try:
        await asyncio.sleep(job.payload["seconds"])
    except asyncio.CancelledError:
        await asyncio.sleep(STUBBORN_SECONDS)
    return {"token": job.token}


_HANDLERS: dict[str, Callable[[JobContext], Awaitable[object]]] = {
    "steady": _steady,
    "long": _steady,
    "flaky": _flaky,
    "doomed": _doomed,
    "hopeless": _hopeless,
    "stubborn": _stubborn,
}
