"""Programs that run side by side on one event loop, and can be frozen and killed like processes.

What a program starts (tasks, timers, callbacks) belongs to it, and so does what those start: a context variable tells.
A frozen program does nothing, as after SIGSTOP: what became due meanwhile runs, in order, when it is thawed. A killed
one never does anything again, as after SIGKILL: no `finally`, no `except`, no last word.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from typing import Any

from eventjobs.testing.virtual_time import START_SECONDS, VirtualTimeLoop

_program: contextvars.ContextVar[Program | None] = contextvars.ContextVar("program", default=None)

TASKS_BEFORE_PRUNING = 256


class Program:
    """One program. `on_kill` are called when it is killed, as a kernel closes what a process had open."""

    def __init__(self, loop: ProgramLoop, name: str) -> None:
        self.name = name
        self.killed = False
        self.on_kill: list[Callable[[], None]] = []
        self._loop = loop
        self._runs = True
        self._held: list[asyncio.Handle] = []
        self._tasks: list[asyncio.Task] = []
        self._context = contextvars.Context()
        self._context.run(_program.set, self)

    @property
    def frozen(self) -> bool:
        """Whether it does nothing for now."""
        return not self._runs and not self.killed

    def spawn(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task:
        """Run a coroutine as part of the program."""
        return self._loop.create_task(main, context=self._context.copy())

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have the program call a function, as a signal would."""
        self._loop.call_soon(function, *arguments, context=self._context.copy())

    def freeze(self) -> None:
        """Stop doing anything."""
        self._runs = False

    def thaw(self) -> None:
        """Go on, with what became due meanwhile first."""
        if not self.killed:
            self._go_on()

    def kill(self) -> None:
        """End at once."""
        if not self.killed:
            self._runs, self.killed = False, True
            for tell in self.on_kill:
                tell()

    def _go_on(self) -> None:
        self._runs = True
        held, self._held = self._held, []
        self._loop._ready.extend(held)

    def _has_started(self, task: asyncio.Task) -> None:
        """Keep the task: one that nothing refers to would be collected, and its `finally` run, at any moment."""
        if len(self._tasks) >= TASKS_BEFORE_PRUNING:
            self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)


class ProgramLoop(VirtualTimeLoop):
    """Virtual time for programs. What belongs to none always runs."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: list[Program] = []
        self._stage = contextvars.Context()

    def program(self, name: str) -> Program:
        """A new program."""
        program = Program(self, name)
        self.programs.append(program)
        return program

    def after(self, seconds: float, function: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        """Call a function later on behalf of the world and not of the program that asks for it."""
        return self.call_later(seconds, function, *arguments, context=self._stage.copy())

    def end(self) -> None:
        """Let nothing come due any more, and what was frozen or killed go on: so that every task can be canceled."""
        for timer in self._scheduled:
            timer.cancel()
        for program in self.programs:
            program._go_on()

    @property
    def elapsed(self) -> float:
        """Seconds since the loop was made."""
        return self.time() - START_SECONDS

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task:
        """As ever; the task belongs to the program that starts it."""
        task = super().create_task(coroutine, **options)
        context = options.get("context")
        program = _program.get() if context is None else context.get(_program)
        if program is not None:
            program._has_started(task)
        return task

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever; the timer belongs to the program that sets it."""
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def _call_soon(
        self, callback: Callable[..., object], args: tuple, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Step(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _write_to_self(self) -> None:
        """There is one thread: nobody has to wake the loop."""


class _Step(asyncio.Handle):
    """A callback that waits while its program does not run."""

    __slots__ = ()

    def _run(self) -> None:
        program = self._context.get(_program)
        if program is None or program._runs:
            asyncio.Handle._run(self)
        else:
            program._held.append(self)


class _Timer(asyncio.TimerHandle):
    """The same for a callback with a time."""

    __slots__ = ()

    def _run(self) -> None:
        program = self._context.get(_program)
        if program is None or program._runs:
            asyncio.Handle._run(self)
        else:
            program._held.append(self)
