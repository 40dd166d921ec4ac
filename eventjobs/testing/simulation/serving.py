"""The coordinator's machine: it starts the real coordinator with the real API, stops it, kills it, starts it anew."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable
from random import Random

from aiohttp import StreamReader, web, web_app
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from eventjobs.api.app import build_app
from eventjobs.api.edge import ACTOR_HEADER, Edge
from eventjobs.coordinator.clock import Clock, SlewedClock
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.content import SALT_BYTES
from eventjobs.domain.limits import BODY_BYTES_MAX
from eventjobs.testing import builders as b
from eventjobs.testing.simulation.clocks import MachineClocks
from eventjobs.testing.simulation.disk import Disk, SimulatedEngine
from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.network import Answer, Delivery, Network
from eventjobs.testing.simulation.programs import Program, ProgramLoop
from eventjobs.testing.simulation.writing import InlineWriter

START_SECONDS = (0.05, 1.0)
"""How long a coordinator takes to start."""
RESTART_SECONDS = (0.05, 4.0)
"""How long there is none after one has ended, unless the machine is retired."""
FINISH_SECONDS = 10.0
"""How long requests that came in may take when it stops."""
HANG_SECONDS = (0.0, 0.5)
"""How long a program lives on whose commit hangs."""


class Machine:
    """Runs one coordinator at a time, over one disk. `network` is to be set before it is started."""

    network: Network

    def __init__(self, loop: ProgramLoop, rng: Random, journal: Journal, disk_watch: Callable[..., None]) -> None:
        self._loop, self._rng, self._journal = loop, rng, journal
        self.disk = Disk(rng, disk_watch, self._hangs)
        self.clocks = MachineClocks(loop)
        self.running: Running | None = None
        self.retired = False
        self._ids = itertools.count(1)
        self._starts = 0
        self._disturbed_at = loop.time()

    @property
    def undisturbed_seconds(self) -> float:
        """For how long the coordinator has been able to work as it should."""
        if self.coordinator is None or self.running.program.frozen or self.disk.troubled:
            self.disturb()
        return self._loop.time() - self._disturbed_at

    def disturb(self) -> None:
        """Say that something keeps the coordinator from its work just now."""
        self._disturbed_at = self._loop.time()

    @property
    def program(self) -> Program | None:
        """The coordinator's program while there is one that was not killed."""
        return None if self.running is None else self.running.program

    @property
    def coordinator(self) -> Coordinator | None:
        """The coordinator that serves now, if one does."""
        return None if self.running is None else self.running.coordinator

    def start(self) -> None:
        """Start a coordinator, if there is none."""
        if self.running is None and not self.retired:
            self._starts += 1
            self._journal.note("machine", "starts the coordinator")
            self.running = Running(self, self._loop.program(f"coordinator-{self._starts}"))

    def stop(self) -> None:
        """Ask the coordinator to stop in good order."""
        if self.running is not None:
            self.running.program.call(self.running.stop_asked.set)

    def kill(self) -> None:
        """End the coordinator at once; what it had open is closed by the system."""
        running, self.running = self.running, None
        if running is not None:
            self._journal.note("machine", "kills the coordinator")
            running.program.kill()
            for delivery in list(running.serving):
                self.network.break_off(delivery)
            self._loop.after(self._rng.uniform(*RESTART_SECONDS), self.start)

    def ended(self, running: Running) -> None:
        """The coordinator ended by itself."""
        if self.running is running:
            self._journal.note("machine", "the coordinator has ended")
            self.kill()

    def forget(self) -> None:
        """Let go of the applications, which aiohttp remembers with the handlers it made for them."""
        remembered = getattr(web_app, "_cached_build_middleware", None)
        if remembered is not None:
            remembered.cache_clear()

    def accept(self, delivery: Delivery) -> bool:
        """See network.Listener."""
        return self.running is not None and self.running.accept(delivery)

    def edge(self, clock: Clock) -> Edge:
        """Where ids, chance and salts come from."""
        rng = self._rng
        return Edge(
            now=clock.now,
            new_id=lambda: b.an_id(next(self._ids)),
            roll=rng.random,
            salt=lambda: rng.randbytes(SALT_BYTES),
        )

    def starting_seconds(self) -> float:
        """How long this start takes."""
        return self._rng.uniform(*START_SECONDS)

    def _hangs(self) -> None:
        self._journal.note("machine", "a commit hangs", "hanging commit")
        self._loop.after(self._rng.uniform(*HANG_SECONDS), self.kill)


class Running:
    """One coordinator from its start to its end, as `eventjobs serve` runs it. `started_at` is by its own clock."""

    def __init__(self, machine: Machine, program: Program) -> None:
        self._machine = machine
        self.program = program
        self.coordinator: Coordinator | None = None
        self.started_at = 0
        self.stop_asked = asyncio.Event()
        self.serving: dict[Delivery, None] = {}
        self._app: web.Application | None = None
        self._idle = asyncio.Event()
        program.spawn(self._run())

    def accept(self, delivery: Delivery) -> bool:
        """Serve a request, once it has started and until it stops."""
        if self._app is None:
            return False
        self.serving[delivery] = None
        self.program.spawn(self._serve(delivery, self._app))
        return True

    async def _run(self) -> None:
        machine = self._machine
        await asyncio.sleep(machine.starting_seconds())
        engine = SimulatedEngine(machine.disk)
        records = machine.disk.records(machine.disk.store.size - 1)
        clock = SlewedClock(records[0].time if records else 0, machine.clocks.wall, machine.clocks.monotonic)
        coordinator = await Coordinator.start(engine, clock, functools.partial(InlineWriter, machine.disk))
        app = build_app(coordinator, machine.edge(clock))
        app.freeze()
        self.coordinator, self._app, self.started_at = coordinator, app, clock.now()
        machine.disturb()
        failed = asyncio.ensure_future(coordinator.failed())
        asked = asyncio.ensure_future(self.stop_asked.wait())
        await asyncio.wait((failed, asked), return_when=asyncio.FIRST_COMPLETED)
        await self._end(coordinator)
        machine.ended(self)

    async def _end(self, coordinator: Coordinator) -> None:
        """Take no more requests, let those that came in end, and stop."""
        coordinator.drain()
        self._app = None
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                while self.serving:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            pass
        await coordinator.stop()
        self.coordinator = None

    async def _serve(self, delivery: Delivery, app: web.Application) -> None:
        request = _request(delivery)
        self._machine.network.arrived(delivery)
        response = await app._handle(request)
        del self.serving[delivery]
        self._idle.set()
        headers = CIMultiDict(response.headers)
        self._machine.network.answer(
            delivery, Answer(response.status, response.content_type, headers, bytes(response.body or b""))
        )


class _Connection:
    """The coordinator's end of a connection: as much of a transport and a protocol as a request is asked for."""

    ssl_context = peername = sockname = None

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.transport = self

    def is_closing(self) -> bool:
        return self._delivery.hung_up_at is not None

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


def _request(delivery: Delivery) -> web.Request:
    """The request as aiohttp's server would have made it of the bytes."""
    exchange = delivery.exchange
    loop = asyncio.get_running_loop()
    headers = CIMultiDict(exchange.headers)
    if ACTOR_HEADER in headers:
        headers[ACTOR_HEADER] = delivery.actor
    if exchange.body:
        headers["Content-Length"] = str(len(exchange.body))
    raw = tuple((name.encode(), value.encode()) for name, value in headers.items())
    message = RawRequestMessage(
        exchange.method, exchange.target, HttpVersion11, CIMultiDictProxy(headers), raw,
        False, None, False, False, URL(exchange.target, encoded=True),
    )  # fmt: skip
    body = StreamReader(BaseProtocol(loop), BODY_BYTES_MAX, loop=loop)
    body.feed_data(exchange.body)
    body.feed_eof()
    task = asyncio.current_task()
    return web.Request(message, body, _Connection(delivery), None, task, loop, client_max_size=BODY_BYTES_MAX)
