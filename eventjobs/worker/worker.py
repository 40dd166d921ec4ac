"""The worker: functions for kinds of jobs, and a process or task that runs them."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from eventjobs.client.checks import setting
from eventjobs.client.client import Client
from eventjobs.client.settings import Retry, Timeouts
from eventjobs.domain.limits import URL_DEFAULT
from eventjobs.worker.contract import Coordinator
from eventjobs.worker.handlers import Function, Handlers
from eventjobs.worker.settings import Settings
from eventjobs.worker.shift import Shift
from eventjobs.worker.signals import stop_signals

F = TypeVar("F", bound=Function)

CLOSING_SECONDS = 1.0


class Worker:
    """Runs jobs of a coordinator with the functions registered by `handler`.

    `coordinator` is its address, or an object with the client's methods (contract.py). `concurrency` bounds the jobs
    at once. `name` shows in the log as the owner of the leases; left out, it is made of host, process and a random
    part. `queues` left out means any. `lease_seconds` is how long the jobs of a worker that fell silent stay with it,
    `grace_seconds` how long handlers may go on when it is asked to stop, `poll_seconds` how long a request for jobs
    is held open, at most a third of `lease_seconds`. Raises ValueError for values out of bounds, TypeError for values
    of the wrong type.

    It lives through any outage of the coordinator and goes on by itself.
    """

    def __init__(
        self,
        coordinator: str | Coordinator = URL_DEFAULT,
        *,
        concurrency: int = 50,
        name: str | None = None,
        queues: Sequence[str] | None = None,
        lease_seconds: float = 30.0,
        grace_seconds: float = 25.0,
        poll_seconds: float = 20.0,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`rng` draws ids and jitter, `clock` measures in seconds how long handlers take; a simulation gives its own.

        The event loop's own time will not do as a clock: uvloop's moves once a millisecond.
        """
        self._settings = Settings(
            concurrency=concurrency,
            queues=queues,
            lease_seconds=lease_seconds,
            grace_seconds=grace_seconds,
            poll_seconds=poll_seconds,
        )
        setting("name", name, (str, type(None)), "a text")
        self._coordinator = coordinator
        if isinstance(coordinator, str):
            self._client(coordinator)  # a wrong address is told here and not when the worker starts
        elif not hasattr(coordinator, "lease"):
            raise TypeError(f"coordinator is an address or a client, unlike {coordinator!r}")
        self._name = name
        self._rng = rng
        self._clock = clock
        self._handlers = Handlers()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = self._ended = asyncio.Event()
        self._stop_requested = self._signaled = False

    def handler(self, kind: str) -> Callable[[F], F]:
        """Decorator: let the function run jobs of this kind.

        It is called with a JobContext. Asynchronous functions run on the event loop and must not block it; plain
        ones run in threads. What it returns is the job's result and must be JSON. What it raises fails the attempt;
        GiveUp and RetryIn say what is to come of the job. A handler may run twice for one job (after a lost lease or
        a killed process), so it should make its effects repeatable, or fence them with `job.token`.
        """

        if not isinstance(kind, str):
            example = getattr(kind, "__name__", "kind")
            raise TypeError(f'handler needs a kind: @worker.handler("{example}")')

        def register(function: F) -> F:
            self._handlers.add(kind, function)
            return function

        return register

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds it has handlers for."""
        return self._handlers.kinds

    def configure(self, *, coordinator: str | None = None, name: str | None = None, **settings: object) -> None:
        """Replace what the constructor was given, before the worker runs; None leaves a value as it is.

        For a command line, which knows better than the program where it runs. Raises ValueError, and TypeError for a
        setting there is not.
        """
        if self._loop is not None:
            raise RuntimeError("this worker is running already")
        given = {key: value for key, value in settings.items() if value is not None}
        self._settings = attrs.evolve(self._settings, **given)
        if coordinator is not None:
            self._client(coordinator)
            self._coordinator = coordinator
        self._name = name or self._name

    def run(self) -> None:
        """Run jobs until SIGTERM or Ctrl+C, then stop in good order; a second signal ends the process at once.

        Raises Refused when the coordinator will not serve this worker.
        """
        loop = _new_loop()
        try:
            with stop_signals(self._stop_on_signal):
                loop.run_until_complete(self.serve())
        finally:
            _close(loop)

    async def serve(self) -> None:
        """Run jobs on the running event loop until it is asked to stop, then stop in good order.

        That is: take no more jobs, let handlers finish for the time of grace, cancel those that did not, and release
        their jobs without counting the attempt. Canceling this call skips all of it.
        """
        if self._loop is not None:
            raise RuntimeError("this worker is running already")
        if not self._handlers.kinds:
            raise ValueError("this worker has no handler; register functions with @worker.handler(kind)")
        self._loop, self._stopping, self._ended = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        if self._stop_requested:
            self._stopping.set()
        rng = self._rng or random.Random()
        coordinator = self._coordinator
        own = self._client(coordinator) if isinstance(coordinator, str) else None
        name = self._name or _name(rng)
        try:
            shift = Shift(own or coordinator, self._handlers, self._settings, name, rng, self._clock)
            await shift.work(self._stopping, lambda: self._signaled)
        finally:
            self._loop, self._stop_requested, self._signaled = None, False, False
            self._ended.set()
            if own is not None:
                await own.close()

    async def stop(self) -> None:
        """Stop in good order and wait until `serve` is about to return. Not for a handler: it would wait for itself."""
        ended = self._ended
        self.request_stop()
        if self._loop is not None:
            await ended.wait()

    def request_stop(self) -> None:
        """Ask the worker to stop in good order, without waiting. From any thread, and before it runs as well."""
        self._stop_requested = True
        loop = self._loop  # read once: the worker may end meanwhile, in its own thread
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._stopping.set)
        except RuntimeError:
            if not loop.is_closed():  # closed: the worker has ended
                raise

    def _stop_on_signal(self) -> None:
        self._signaled = True
        self.request_stop()

    def _client(self, url: str) -> Client:
        """A client that asks once: the worker itself insists, as long as it takes."""
        return Client(url, retry=Retry.never(), timeouts=Timeouts(answer_seconds=self._settings.answer_seconds))


def _name(rng: random.Random) -> str:
    """A name that no other process has: made when the worker starts, for it may have been forked before."""
    return f"{socket.gethostname()}-{os.getpid()}-{rng.getrandbits(32):08x}"


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for every system
        return asyncio.new_event_loop()
    return new_event_loop()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close the loop, without waiting long for tasks that will not be canceled."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSING_SECONDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
