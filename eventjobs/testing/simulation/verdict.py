"""The verdict on a run: the first promise that was broken, if any."""

from __future__ import annotations

import asyncio

from eventjobs.testing.simulation.journal import Journal


class Verdict:
    """Takes what went wrong. Only the first thing counts: what follows may come of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._found = asyncio.Event()
        self.broken: str | None = None

    def breach(self, what: str) -> None:
        """Say that a promise was broken."""
        if self.broken is None:
            self.broken = what
            self._journal.note("judge", f"BROKEN: {what}")
            self._journal.close()
            self._found.set()

    def hold(self, kept: bool, what: str) -> None:
        """Say which promise it is that must be kept."""
        if not kept:
            self.breach(what)

    async def found(self) -> None:
        """Wait until something is broken."""
        await self._found.wait()
