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
from eventjobs.coordinator.replies import StoreAway, Unavailable, UnknownOutcome
from eventjobs.coordinator.writer import MakeWriter, Steps, WriterThread
from eventjobs.store.contract import NOTHING, Away, Engine, JobsHeld, Needs, OutcomeUnknown, StorageFull, TryAgain

COMMAND_BYTES = 1_024
"""What a command takes in memory and in a transaction beside its contents, counted into a request's size."""
ATTEMPTS_MAX = 5
ATTEMPTS_SECONDS = 10.0
"""How often a group is worked on that the store breaks off for the sake of others, and for how long: a wait for a lock
that was begun by then is the last."""
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
    needs: Needs
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

    async def run(self, work: Work[T], size: int = 0, needs: Needs = NOTHING) -> T:
        """Run the work in the next group and return its result after the commit. `size` is what it takes in bytes,
        `needs` what it will ask the transaction for. It may be run several times, each time in a new transaction.

        Raises Unavailable when nothing was done, UnknownOutcome when that cannot be told.
        """
        if self._fatal is not None:
            raise _going_down()
        if self._closed:
            raise Unavailable("shutting_down", "the coordinator is shutting down")
        if self._pending >= PENDING_REQUESTS_MAX or self._pending_bytes + size > PENDING_BYTES_MAX:
            raise Unavailable("overloaded", f"{self._pending} requests are waiting to be written")
        request = _Request(work, size, needs, self._loop.create_future())
        self._pending += 1
        self._pending_bytes += size
        self._writer.put(request)
        return await request.answer

    async def between(self, work: Callable[[], T]) -> T:
        """Run the work on the writer thread between two commits, with no transaction open, and return its result.

        Raises what it raises, Unavailable when nothing was done, UnknownOutcome when the store failed: that ends all.
        """
        if self._fatal is not None or self._closed:
            raise Unavailable("shutting_down", "the coordinator is shutting down")
        answer = self._loop.create_future()

        def task() -> None:
            result, error = None, None
            try:
                if self._fatal is not None:
                    raise _going_down()
                result = work()
            except OutcomeUnknown as failure:
                self._give_up([], failure)
                error = _unknown(failure)
            except Exception as failure:  # noqa: BLE001 - it is told to who asked
                error = failure
            self._loop.call_soon_threadsafe(_settle, answer, result, error)

        self._writer.put(task)
        return await answer

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
            return self._refuse(group, _going_down())
        broken_off, began = 0, self._loop.time()
        while group:
            try:
                culprit = self._attempt(group)
            except JobsHeld as held:
                group = self._without(group, held)
            except TryAgain as error:
                broken_off += 1
                if broken_off == ATTEMPTS_MAX or self._loop.time() >= began + ATTEMPTS_SECONDS:
                    return self._refuse(group, Unavailable("overloaded", f"the store is too busy: {error}"))
            except Away as away:
                return self._refuse(group, StoreAway(away))
            except StorageFull as full:
                return self._refuse(group, _unavailable(full))
            except Exception as error:  # noqa: BLE001 - whatever stopped it, its outcome is unknown
                if self._engine.shared and isinstance(error, OutcomeUnknown):
                    return self._refuse(group, _unknown(error))
                return self._give_up(group, error)
            else:
                if culprit is None:
                    return None
                request, error = culprit
                self._refuse([request], error)
                group.remove(request)
        return None

    def _without(self, group: list[_Request], held: JobsHeld) -> list[_Request]:
        """Refuse the requests about jobs that somebody holds; the others of the group."""
        refused = [request for request in group if not held.ids.isdisjoint(request.needs.jobs)]
        self._refuse(refused, Unavailable("overloaded", str(held)))
        return [request for request in group if request not in refused]

    def _attempt(self, group: list[_Request]) -> tuple[_Request, Exception] | None:
        """Work on the whole group and commit, or name the first request whose work raises, and why. Raises what the
        store raises."""
        effects, results = Effects(), []
        needs = Needs.of_all(request.needs for request in group)
        handler = Handler(self._engine.begin(needs), effects, self._engine.room_for_new_work)
        try:
            culprit = self._work(group, handler, results)
        except (TryAgain, Away):
            self._engine.abort()
            raise
        if culprit is not None:
            self._engine.abort()
            return culprit
        self._engine.commit()
        self._answer([(request, result, None) for request, result in zip(group, results, strict=True)], effects)
        return None

    def _work(self, group: list[_Request], handler: Handler, results: list) -> tuple[_Request, Exception] | None:
        for request in group:
            try:
                results.append(request.work(handler))
            except (TryAgain, Away):  # the whole transaction's
                raise
            except StorageFull as full:
                return request, _unavailable(full)
            except Exception as error:  # noqa: BLE001 - it is the request's own, which is told of it
                return request, error
        return None

    def _give_up(self, group: list[_Request], error: Exception) -> None:
        """The store cannot be trusted any more: answer nothing as done or as refused, and end."""
        self._fatal = error
        self._loop.call_soon_threadsafe(self._on_fatal, error)
        self._refuse(group, _unknown(error))

    def _refuse(self, group: list[_Request], error: Exception) -> None:
        self._answer([(request, None, error) for request in group], None)

    def _answer(self, answers: list[tuple[_Request, Any, Exception | None]], effects: Effects | None) -> None:
        self._loop.call_soon_threadsafe(self._deliver, answers, effects)

    # On the event loop ----------------------------------------------------------------------------------------

    def _deliver(self, answers: list[tuple[_Request, Any, Exception | None]], effects: Effects | None) -> None:
        for request, result, error in answers:
            self._pending -= 1
            self._pending_bytes -= request.size
            _settle(request.answer, result, error)
        if effects is not None:
            self._on_commit(effects)


def _settle(answer: asyncio.Future, result: object, error: Exception | None) -> None:
    if answer.done():  # its caller has left
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _going_down() -> Unavailable:
    return Unavailable("shutting_down", "the store has failed and the coordinator is going down")


def _unavailable(full: StorageFull) -> Unavailable:
    return Unavailable("storage_full", str(full))


def _unknown(error: Exception) -> UnknownOutcome:
    unknown = UnknownOutcome("the store failed during a commit; whether it was kept shows when it is asked again")
    unknown.__cause__ = error
    return unknown
