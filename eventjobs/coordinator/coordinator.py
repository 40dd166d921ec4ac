"""The coordinator: everything between the API and an engine, owned by one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import structlog

from eventjobs.coordinator.alarm import Alarm
from eventjobs.coordinator.archiver import Archiver
from eventjobs.coordinator.askers import Askers
from eventjobs.coordinator.clock import Clock, SlewedClock
from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.group_commit import COMMAND_BYTES, GroupCommit, T, Work
from eventjobs.coordinator.intake import Intake, Read
from eventjobs.coordinator.lease_requests import LeaseRequest
from eventjobs.coordinator.log_lines import report
from eventjobs.coordinator.looking import STORE_FAILED, Looking, Question
from eventjobs.coordinator.neighbours import Neighbours
from eventjobs.coordinator.replies import BatchRejected, Enqueued, Leased, StoreAway, Unavailable, UnknownOutcome
from eventjobs.coordinator.rescuer import Rescuer
from eventjobs.coordinator.retention import Retention
from eventjobs.coordinator.store_time import StoreTime
from eventjobs.coordinator.waiters import Waiter, Waiters
from eventjobs.coordinator.writer import MakeWriter, WriterThread
from eventjobs.domain.commands import Command, Enqueue, Erase, Lease, Retire, content_of
from eventjobs.domain.job import Job
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.retention import NO_RULES, Rules
from eventjobs.store.contract import (
    NOTHING,
    Copy,
    Engine,
    Failed,
    LeaseNeed,
    Needs,
    Reader,
    SealsLog,
    SharedEngine,
)

MAINTENANCE_SECONDS = 10.0
DUE_TIMES_MAX = 100
"""Times looked at one by one when jobs came due."""
COPY_RETRY_SECONDS = 10
FULL_SECONDS = 5.0
"""How long a coordinator is not ready after its store had no room. Then the next request may try."""

log = structlog.get_logger("eventjobs.coordinator")


class Coordinator:
    """Takes commands and answers after their commit; wakes long-polls; ends leases that ran out.

    Made by `start`. Commands may raise replies.Unavailable (nothing was done) and replies.UnknownOutcome.
    """

    def __init__(
        self, engine: Engine, clock: Clock, writer: MakeWriter = WriterThread, retention: Rules = NO_RULES
    ) -> None:
        self.clock = clock
        self.draining = False
        self.askers = Askers(clock.now)
        """Who asked for jobs lately."""
        self.intake: Intake | None = None
        self.asked_at: int | None = None
        """Since when the oldest request of a shared store's intake waits, by the last look."""
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[BaseException] = self._loop.create_future()
        self._commits = GroupCommit(engine, self._committed, self._failed, writer)
        self._waiters = Waiters()
        self._lease_requests: dict[tuple[str, str], LeaseRequest] = {}
        self._log_watchers: set[asyncio.Future[None]] = set()
        self._full_until = 0.0
        self._copier: asyncio.Task[object] | None = None
        self._due = Alarm(clock, self._jobs_came_due)
        self._due_seen = clock.now()
        self._rescuer = Rescuer(self._expire, clock, self._next_expiry)
        self._looking = Looking(engine)
        self._neighbours: Neighbours | None = None
        self._retention = Retention(retention, clock, self.look, self.execute)
        self._maintenance: asyncio.TimerHandle | None = None
        self._archiver: Archiver | None = None

    @classmethod
    async def start(
        cls,
        engine: Engine,
        clock: Clock | None = None,
        writer: MakeWriter = WriterThread,
        retention: Rules = NO_RULES,
    ) -> Coordinator:
        """A running coordinator over an open engine, which it owns from now on. Without rules nothing is let go.

        `clock` is for engines that are not shared; a shared one tells the time itself.
        """
        if engine.shared:
            return await cls._start_shared(engine, writer, retention)
        if clock is None:
            with engine.read() as reader:
                size = reader.head().size
                newest = reader.record(size) if size else None
            clock = SlewedClock(not_before=newest.time if newest else 0)
        coordinator = cls(engine, clock, writer, retention)
        await coordinator._rescuer.begin()
        coordinator._retention.begin()
        coordinator._watch_next_due()
        coordinator._schedule_maintenance()
        return coordinator

    @classmethod
    async def _start_shared(cls, engine: SharedEngine, writer: MakeWriter, retention: Rules) -> Coordinator:
        """Raises Away when the store cannot be reached."""
        pulse = await asyncio.to_thread(engine.pulse)
        time = StoreTime(pulse.time)
        coordinator = cls(engine, SlewedClock(wall=time.wall), writer, retention)
        coordinator._neighbours = Neighbours(
            engine, time, coordinator._store_moved, coordinator._rescuer.spare, coordinator._asked
        )
        await coordinator._rescuer.begin()
        coordinator._retention.begin()
        coordinator._neighbours.begin()
        coordinator._schedule_maintenance()
        return coordinator

    def archive(self, store: SealsLog, age: int) -> None:
        """From now on, move records out of the live store, which is its engine's, when they reach an age in
        microseconds."""
        self._archiver = Archiver(store, age, self.clock, self._commits.between)

    def take_in(self, read: Read) -> None:
        """From now on, enqueue what producers ask for within transactions of their own. `read` makes the commands of
        it. A store that is not shared is asked for nothing in this way."""
        if self._neighbours is not None:
            self.intake = Intake(self.look, self._write, read)

    def _asked(self, since: int | None) -> None:
        self.asked_at = since
        if since is not None and self.intake is not None and not self.draining:
            self.intake.begin()

    @property
    def ready(self) -> bool:
        """Whether it takes commands and, as far as is known, can write them."""
        return not (self.draining or self._failure.done() or self._away or self._loop.time() < self._full_until)

    @property
    def _away(self) -> bool:
        return self._neighbours is not None and self._neighbours.away

    @property
    def leases_spared_until(self) -> int:
        """The time, in microseconds, before which no lease is ended here, as nobody could renew in an outage. It may
        have passed."""
        return self._rescuer.spared_until

    @property
    def pending(self) -> int:
        """Requests that wait for the writer's answer."""
        return self._commits.pending

    async def failed(self) -> BaseException:
        """Wait until the store fails for good; the process must end then."""
        return await asyncio.shield(self._failure)

    def drain(self) -> None:
        """Take no more commands; long-polls end empty-handed, and what is being written is finished."""
        self.draining = True
        if self._copier is not None:
            self._copier.cancel()
        self._waiters.wake_all()
        self._wake_log_watchers()

    async def stop(self) -> None:
        """Drain, finish and close the engine."""
        self.drain()
        self._due.stop()
        if self._maintenance is not None:
            self._maintenance.cancel()
        await self._rescuer.stop()
        await self._retention.stop()
        if self.intake is not None:
            await self.intake.stop()
        if self._archiver is not None:
            await self._archiver.stop()
        if self._neighbours is not None:
            await self._neighbours.stop()
        await self._commits.close()
        await self._looking.close()
        self._engine.close()

    # Commands -------------------------------------------------------------------------------------------------

    async def enqueue(self, commands: Sequence[Enqueue]) -> list[Enqueued] | BatchRejected:
        """All of the jobs or none; a known idempotency key yields its job."""
        self._refuse_at_the_door()
        ids = tuple(command.job_id for command in commands)
        keys = tuple(command.idempotency_key for command in commands if command.idempotency_key is not None)
        reply = await self._write(
            lambda handler: handler.enqueue(commands), _size(commands), Needs(jobs=ids, keys=keys)
        )
        if isinstance(reply, BatchRejected) and reply.rejection.code is Code.STORAGE_FULL:
            self._full_until = self._loop.time() + FULL_SECONDS
            raise Unavailable("storage_full", reply.rejection.message)
        return reply

    async def lease(
        self,
        command: Lease,
        queues: Sequence[str] | None,
        kinds: Sequence[str] | None,
        max_jobs: int,
        wait: int = 0,
        still_wanted: Callable[[], bool] = lambda: True,
    ) -> list[Job]:
        """Up to `max_jobs` jobs of the asked queues and kinds (None: any), waiting up to `wait` microseconds for one.

        `still_wanted` is asked just before each attempt: nothing is leased for a caller who has gone. A request whose
        id is under way already gets the answer of that one.
        """
        self._refuse_at_the_door()
        self.askers.note(command.worker, queues, kinds, wait)
        deadline = self._loop.time() + wait / MICROSECONDS
        name = None if command.request_id is None else (command.worker, command.request_id)
        if name is not None and (under_way := self._lease_requests.get(name)) is not None:
            return await under_way.answer(deadline, still_wanted)
        request = LeaseRequest(Waiter(command.worker, queues, kinds), deadline, still_wanted)
        if name is not None:
            self._lease_requests[name] = request
        self._waiters.add(request.waiter)
        try:
            jobs = await self._lease(request, command, queues, kinds, max_jobs)
        except BaseException as error:
            request.failed(error)
            raise
        else:
            if len(jobs) >= max_jobs:
                self.askers.filled(command.worker, jobs)
            request.answered(jobs)
            return jobs
        finally:
            self._waiters.remove(request.waiter)
            if name is not None:
                del self._lease_requests[name]

    async def _lease(
        self,
        request: LeaseRequest,
        command: Lease,
        queues: Sequence[str] | None,
        kinds: Sequence[str] | None,
        max_jobs: int,
    ) -> list[Job]:
        while request.still_wanted():
            command = _at(command, max(command.now, self.clock.now()))
            leased = await self._try_lease(request.waiter, command, queues, kinds, max_jobs)
            left = request.deadline - self._loop.time()
            if leased.jobs or leased.repeated or left <= 0 or self.draining:
                return leased.jobs
            if not await request.waiter.woken(left) or self.draining:
                return []
        return []

    async def _try_lease(
        self,
        waiter: Waiter,
        command: Lease,
        queues: Sequence[str] | None,
        kinds: Sequence[str] | None,
        max_jobs: int,
    ) -> Leased:
        """One attempt. If it fails, or takes jobs of other lanes only, the job it was woken for is left to the next.
        One that found jobs nobody had been told of wakes two more, as there may be others."""
        woken_for = waiter.about_to_try()
        used = False
        needs = Needs(leases=(LeaseNeed(queues, kinds, max_jobs, command.worker, command.request_id),))
        try:
            leased = await self._write(lambda handler: handler.lease(command, queues, kinds, max_jobs), needs=needs)
            lanes = {(job.spec.queue, job.spec.kind) for job in leased.jobs}
            used = not leased.repeated and (not lanes or woken_for in lanes)
            return leased
        finally:
            if woken_for is not None and not used:
                self._waiters.offer({woken_for: 2 if woken_for == waiter.choice else 1})

    async def execute(self, commands: Sequence[Command]) -> list[Job | Rejection]:
        """Decide each command alone, in order, in one commit: the job after it, or why nothing happened."""
        self._refuse_at_the_door()
        needs = Needs(
            jobs=tuple(command.job_id for command in commands),
            errors_of=tuple(command.job_id for command in commands if isinstance(command, Erase | Retire)),
        )
        return await self._write(lambda handler: handler.execute(commands), _size(commands), needs)

    async def _expire(self, now: int, limit: int) -> int:
        return await self._write(lambda handler: handler.expire(now, limit), needs=Needs(expired=limit))

    async def _write(self, work: Work[T], size: int = COMMAND_BYTES, needs: Needs = NOTHING) -> T:
        """Run the work in the next commit, and remember for a while when the store has no room."""
        try:
            return await self._commits.run(work, size, needs)
        except StoreAway:
            self._neighbours.store_is_away()
            raise
        except Unavailable as error:
            if error.code == Code.STORAGE_FULL:
                self._full_until = self._loop.time() + FULL_SECONDS
            raise

    def _refuse_at_the_door(self) -> None:
        if self.draining:
            raise Unavailable("shutting_down", "the coordinator is shutting down")
        if self._away:
            raise StoreAway("it did not answer lately")

    # Reading --------------------------------------------------------------------------------------------------

    def read(self) -> AbstractContextManager[Reader]:
        """A consistent view for a short read, never held across an await. Where reading waits for a network, `look` is
        for the event loop."""
        return self._engine.read()

    @contextmanager
    def copy(self) -> Iterator[Copy | None]:
        """What a backup is written from, one at a time; None when the engine cannot be copied. Raises Unavailable.

        The task that writes it is cancelled when the coordinator is told to stop: it may take longer than that waits.
        """
        self._refuse_at_the_door()
        if self._copier is not None:
            raise Unavailable("overloaded", "a backup is being written; ask again when it is done", COPY_RETRY_SECONDS)
        self._copier = asyncio.current_task()
        try:
            copy = self._new_copy()
            try:
                yield copy
            finally:
                if copy is not None:
                    copy.close()
        finally:
            self._copier = None

    def _new_copy(self) -> Copy | None:
        try:
            return self._engine.copy()
        except Failed as failed:
            raise UnknownOutcome(STORE_FAILED) from failed

    async def look(self, question: Question[T]) -> T:
        """The answer to a question about one consistent view. Raises Unavailable when a shared store gives none now."""
        if self._away:
            raise StoreAway("it did not answer lately")
        try:
            return await self._looking.look(question)
        except StoreAway:
            self._neighbours.store_is_away()
            raise

    async def log_moved(self, beyond: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until the log is longer than `beyond`; True as well once draining."""
        deadline = self._loop.time() + timeout
        while not self.draining:
            watcher = self._loop.create_future()
            self._log_watchers.add(watcher)
            try:
                if await self.look(_log_size) > beyond:
                    return True
                done, _ = await asyncio.wait([watcher], timeout=max(0.0, deadline - self._loop.time()))
            finally:
                self._log_watchers.discard(watcher)
            if not done:
                return False
        return True

    async def _next_expiry(self) -> int | None:
        return await self.look(_next_expiry)

    # What follows a commit ------------------------------------------------------------------------------------

    def _committed(self, effects: Effects) -> None:
        if effects.appended:
            self._wake_log_watchers()
            self.askers.saw(effects.appended, effects.silent)
        if not self.draining:  # else nobody waits for jobs any more, and the next coordinator sets its own timers
            self._wake(effects)
        report(effects)

    def _wake(self, effects: Effects) -> None:
        if effects.available:
            self._waiters.offer(effects.available, effects.silent)
        if effects.next_due is not None:
            self._due_seen = min(self._due_seen, effects.next_due - 1)
            self._due.set(effects.next_due)
        self._rescuer.expect(effects.next_expiry)
        self._retention.saw(after for _, _, after in effects.appended)

    def _wake_log_watchers(self) -> None:
        for watcher in self._log_watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _failed(self, error: BaseException) -> None:
        if not self._failure.done():
            log.critical("store_failed", error=str(error))
            self._failure.set_result(error)
            self.drain()

    async def _store_moved(self) -> None:
        """Something was written by any coordinator, or is due. What a job is waited for by whom, a try will show."""
        now = self.clock.now()
        expiry, due = await self.look(lambda view: (view.next_expiry(), view.next_due(now)))
        self._wake_log_watchers()
        if not self.draining:
            self._rescuer.expect(expiry)
            self._due.set(None if due is None else due[0])
            self._waiters.probe()

    def _jobs_came_due(self) -> None:
        """Offer every lane that came due since the last look, then wait for the next. When that is too much to look at
        on the event loop, wake everybody: each finds out for itself."""
        if self._neighbours is not None:
            return self._neighbours.look_again()
        now = self.clock.now()
        with self._engine.read() as reader:
            for _ in range(DUE_TIMES_MAX):
                found = reader.next_due(self._due_seen)
                if found is None or found[0] > now:
                    break
                self._due_seen, lanes = found
                if lanes is None:
                    self._waiters.wake_all()
                else:
                    self._waiters.offer_all(lanes)
            else:
                self._waiters.wake_all()
                found = reader.next_due(now)
        self._due_seen = now
        self._due.set(None if found is None else found[0])

    def _watch_next_due(self) -> None:
        with self._engine.read() as reader:
            found = reader.next_due(self._due_seen)
        self._due.set(None if found is None else found[0])

    def _schedule_maintenance(self) -> None:
        def maintain() -> None:
            self._commits.maintain()
            if self._neighbours is not None and not (self.draining or self._away):
                self._retention.begin()  # with what others finished
            self._schedule_maintenance()

        self._maintenance = self._loop.call_later(MAINTENANCE_SECONDS, maintain)


def _size(commands: Sequence[Command]) -> int:
    """What commands take in memory while they wait, in bytes."""
    contents = sum(len(content.text) for command in commands if (content := content_of(command)) is not None)
    return contents + COMMAND_BYTES * len(commands)


def _log_size(view: Reader) -> int:
    return view.head().size


def _next_expiry(view: Reader) -> int | None:
    return view.next_expiry()


def _at(command: Lease, now: int) -> Lease:
    return Lease(
        worker=command.worker,
        duration=command.duration,
        request_id=command.request_id,
        now=now,
        actor=command.actor,
    )
