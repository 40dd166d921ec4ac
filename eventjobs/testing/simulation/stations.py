"""Places of those who are not workers: a program that runs one thing, and is started again when it was killed."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from eventjobs.testing.simulation.journal import Journal
from eventjobs.testing.simulation.programs import Program, ProgramLoop

RESTART_SECONDS = (0.1, 3.0)


class Station:
    """Runs `main` in a program of the station's name, again after each kill."""

    def __init__(
        self,
        loop: ProgramLoop,
        name: str,
        rng: Random,
        journal: Journal,
        main: Callable[[Program], Coroutine[Any, Any, None]],
    ) -> None:
        self._loop, self._rng, self._journal, self._main = loop, rng, journal, main
        self.name = name
        self.retired = False
        self._program: Program | None = None

    def start(self) -> None:
        """Start it, unless it is retired."""
        if not self.retired:
            self._program = self._loop.program(self.name)
            self._program.spawn(self._main(self._program))

    def kill(self) -> None:
        """End it at once."""
        if self._program is not None and not self._program.killed:
            self._journal.note(self.name, "is killed")
            self._program.kill()
            self._loop.after(self._rng.uniform(*RESTART_SECONDS), self.start)

    def retire(self) -> None:
        """End it for good."""
        self.retired = True
        self.kill()
