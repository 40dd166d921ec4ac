"""The conduct of workers: what they start, what they send, and what they were told before."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from eventjobs.testing.simulation.messages import Item, Message
from eventjobs.testing.simulation.verdict import Verdict


class Conduct:
    """Watches over handlers and what is sent of their outcomes. `now` is the time of the event loop."""

    def __init__(self, verdict: Verdict, now: Callable[[], float]) -> None:
        self._verdict, self._now = verdict, now
        self._started: set[Item] = set()
        self._ended: dict[Item, bool] = {}
        self._lost_at: dict[tuple[str, Item], float] = {}
        self.running: dict[str, int] = {}

    def handler_starts(self, worker: str, item: Item) -> None:
        """A handler begins: for each lease there is one."""
        self._verdict.hold(item not in self._started, f"{worker} runs {item}, which was run before")
        self._started.add(item)
        self.running[worker] = self.running.get(worker, 0) + 1

    def handler_ends(self, worker: str, item: Item, canceled: bool) -> None:
        """A handler ends. What comes of it may be sent unless it was canceled, or its lease lost before that moment."""
        self.running[worker] -= 1
        lost_at = self._lost_at.get((worker, item), self._now())
        self._ended[item] = not canceled and lost_at >= self._now()

    def sends(self, worker: str, request: Message) -> None:
        """A worker speaks of its jobs."""
        if request.verb not in ("complete", "fail"):
            return
        for item in request.items:
            may = self._ended.get(item, False)
            self._verdict.hold(may, f"{worker} sends {request.verb} {item} though it had given the job up")

    def hears(self, worker: str, request: Message, status: int, text: bytes) -> None:
        """A worker is answered."""
        if request.verb != "renew" or status != 200:
            return
        for item, result in zip(request.items, orjson.loads(text)["results"], strict=True):
            if not result["ok"] and item not in self._ended:
                self._lost_at.setdefault((worker, item), self._now())
