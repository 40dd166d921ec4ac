"""Group commit: one writer thread works on whatever waits, commits it at once, and only then answers.

The thread is the only one that writes the store. While a commit waits for the disk, the next group gathers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from attrs import define

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.coordinator.writer import MakeWriter, Steps, WriterThread
from eventjobs.store.contract import Engine, StorageFull

COMMAND_BYTES = 1_024
"""What a command takes in memory and in a transaction beside its contents, counted into a request's size."""
GROUP_REQUESTS_MAX = 256
GROUP_BYTES_MAX = 32 << 20
"""Commands with their contents in one commit: it bounds the dirty pages of a transaction."""
PENDING_REQUESTS_MAX = 10_000
PENDING_BYTES_MAX = 256 << 20
"""Beyond these the coordinator answers `overloaded` instead of letting memory grow."""

T = TypeVar("T")
Work = Callable[[Handler], T]

log = structlog.get_logger("eventjobs.coordinator")


@define(eq=False)
class _Request:
    work: Work
    size: int
    answer: asyncio.Future


def _stop() -> None:
    """Ends the writer when its turn comes."""


class GroupCommit:
    """Runs work on the writer thread. `on_commit` hears of every commit's effects, `on_fatal` of the end, both on the
    event loop."""

    def __init__(
        self,
        engine: Engine,
        on_commit: Callable[[Effects], None],
        on_fatal: Callable[[BaseException], None],
        writer: MakeWriter = WriterThread,
    ) -> None:
        """`writer` makes who takes the steps of writing; it is sent requests, and housekeeping as functions."""
        self._engine, self._on_commit, self._on_fatal = engine, on_commit, on_fatal
        self._loop = asyncio.get_running_loop()
        self._pending = self._pending_bytes = 0
        self._fatal: BaseException | None = None
        self._closed = False
        self._writer = writer(self._write)

    @property
    def pending(self) -> int:
        """Requests that were not answered yet, those whose callers have left included."""
        return self._pending

    async def run(self, work: Work[T], size: int = 0) -> T:
        """Run the work in the next group and return its result after the commit. `size` is what it takes in bytes.

        Raises Unavailable when nothing was done, UnknownOutcome when that cannot be told.
        """
        if self._fatal is not None:
            raise Unavailable("shutting_down", "the store has failed and the coordinator is going down")
        if self._closed:
            raise Unavailable("shutting_down", "the coordinator is shutting down")
        if self._pending >= PENDING_REQUESTS_MAX or self._pending_bytes + size > PENDING_BYTES_MAX:
            raise Unavailable("overloaded", f"{self._pending} requests are waiting to be written")
        request = _Request(work, size, self._loop.create_future())
        self._pending += 1
        self._pending_bytes += size
        self._writer.put(request)
        return await request.answer

    def maintain(self) -> None:
        """Have the engine do its housekeeping between two commits."""
        self._writer.put(self._engine.maintain)

    async def close(self) -> None:
        """Work off what waits, then end the thread. Whoever comes later is refused."""
        self._closed = True
        self._writer.put(_stop)
        await self._writer.ended()

    # On the writer thread -------------------------------------------------------------------------------------

    def _write(self) -> Steps:
        """Take one item after another; a group is committed when it is full, or when nothing waits any more."""
        group: list[_Request] = []
        size = 0
        while True:
            item = yield not group
            is_request = isinstance(item, _Request)
            if is_request and (not group or (len(group) < GROUP_REQUESTS_MAX and size + item.size <= GROUP_BYTES_MAX)):
                group.append(item)
                size += item.size
                continue
            if group:
                self._commit(group)
            group, size = ([item], item.size) if is_request else ([], 0)
            if item is _stop:
                return
            if not is_request and item is not None:
                self._housekeeping(item)

    def _housekeeping(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:  # nothing waits for it, and the next round tries again
            log.exception("housekeeping_failed")

    def _commit(self, group: list[_Request]) -> None:
        """Commit the group; a request whose work raises is taken out, and the others are worked on again."""
        if self._fatal is not None:
            gone = Unavailable("shutting_down", "the store has failed and the coordinator is going down")
            return self._answer([(request, None, gone) for request in group], None)
        while group:
            effects, results = Effects(), []
            try:
                handler = Handler(self._engine.begin(), effects, self._engine.room_for_new_work)
            except Exception as error:  # noqa: BLE001 - a store that cannot begin is not to be trusted
                return self._give_up(group, error)
            culprit = self._work(group, handler, results)
            if culprit is not None:
                try:
                    self._engine.abort()
                except Exception as error:  # noqa: BLE001 - a store that cannot drop what was begun is broken
                    return self._give_up(group, error)
                request, error = culprit
                self._answer([(request, None, error)], None)
                group.remove(request)
                continue
            try:
                self._engine.commit()
            except StorageFull as full:
                return self._answer([(request, None, _unavailable(full)) for request in group], None)
            except Exception as error:  # noqa: BLE001 - whatever stopped a commit, its outcome is unknown
                return self._give_up(group, error)
            answers = [(request, result, None) for request, result in zip(group, results, strict=True)]
            return self._answer(answers, effects)

    def _work(self, group: list[_Request], handler: Handler, results: list) -> tuple[_Request, Exception] | None:
        for request in group:
            try:
                results.append(request.work(handler))
            except StorageFull as full:
                return request, _unavailable(full)
            except Exception as error:  # noqa: BLE001 - it is the request's own, which is told of it
                return request, error
        return None

    def _give_up(self, group: list[_Request], error: Exception) -> None:
        """The store cannot be trusted any more: answer nothing as done or as refused, and end."""
        self._fatal = error
        unknown = UnknownOutcome("the store failed during a commit; whether it was kept shows after the restart")
        unknown.__cause__ = error
        self._loop.call_soon_threadsafe(self._on_fatal, error)
        self._answer([(request, None, unknown) for request in group], None)

    def _answer(self, answers: list[tuple[_Request, Any, Exception | None]], effects: Effects | None) -> None:
        self._loop.call_soon_threadsafe(self._deliver, answers, effects)

    # On the event loop ----------------------------------------------------------------------------------------

    def _deliver(self, answers: list[tuple[_Request, Any, Exception | None]], effects: Effects | None) -> None:
        for request, result, error in answers:
            self._pending -= 1
            self._pending_bytes -= request.size
            if request.answer.done():  # its caller has left
                continue
            if error is None:
                request.answer.set_result(result)
            else:
                request.answer.set_exception(error)
        if effects is not None:
            self._on_commit(effects)


def _unavailable(full: StorageFull) -> Unavailable:
    return Unavailable("storage_full", str(full))
