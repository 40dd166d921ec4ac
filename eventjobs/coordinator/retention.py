"""The retention timer: lets what rules say go, down the same road as every other command, a small step at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import structlog

from eventjobs.coordinator.alarm import Alarm
from eventjobs.coordinator.clock import Clock
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.domain.commands import RETENTION, Command, Erase, ForgetKey, Retire
from eventjobs.domain.job import Job
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Rejection
from eventjobs.domain.retention import Rule, Rules
from eventjobs.store.contract import BARE, HOLDING, KEYED, EndingLane, Reader

STEP_JOBS = 50
"""Jobs of one request to the writer, which takes a few milliseconds, so that others get their turn in between."""
STEP_RECORDS = 500
"""Records that these jobs have in all, unless a single one has more: each has a row to be dropped."""
PAUSE_SECONDS = 0.01
"""Between two steps: the writer is left to others for longer than a step takes it."""
RETRY_AFTER = 10 * MICROSECONDS
"""After a step that failed, the next is tried this much later."""

log = structlog.get_logger("eventjobs.retention")

Look = Callable[[Callable[[Reader], Any]], Awaitable[Any]]
Execute = Callable[[Sequence[Command]], Awaitable[list[Job | Rejection]]]
Due = tuple[EndingLane, str, Rule, int]
"""A lane, what is done to its jobs, the rule that says so, and the earliest time at which one of them is due."""


class Retention:
    """Sleeps until something is due, then takes steps until nothing is. What was done is in the store, so a restart
    goes on where it was."""

    def __init__(self, rules: Rules, clock: Clock, look: Look, execute: Execute) -> None:
        """`look` asks the store a question."""
        self._rules, self._clock, self._look, self._execute = rules, clock, look, execute
        self._alarm = Alarm(clock, self._start)
        self._task: asyncio.Task | None = None

    def begin(self) -> None:
        """Begin with what is in the store."""
        if self._rules.rules:
            self._start()

    def saw(self, jobs: Iterable[Job]) -> None:
        """These jobs changed. Of those that finished, one may be due earlier than all others."""
        if not self._rules.rules:
            return
        for job in jobs:
            if job.finished_at is not None and not job.retired:
                self._expect(job)

    def _expect(self, job: Job) -> None:
        for subject in (job.state.value, "payloads", "keys"):
            rule = self._rules.about(subject, job.spec.queue, job.spec.kind)
            if rule is not None and (subject != "keys" or job.spec.idempotency_key is not None):
                self._alarm.set(job.finished_at + rule.age)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._alarm.stop()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        due = None
        try:
            while (due := await self._look(self._next_due)) is not None and due <= self._clock.now():
                commands = await self._look(partial(plan, rules=self._rules, now=self._clock.now()))
                await self._execute(commands)
                log.debug("retained", commands=len(commands))
                await asyncio.sleep(PAUSE_SECONDS)
        except UnknownOutcome:
            due = None
        except Unavailable as error:
            due = None
            if error.code != "shutting_down":  # else the next coordinator goes on
                due = self._clock.now() + RETRY_AFTER
                log.warning("retention_put_off", reason=str(error))
        except Exception:
            due = self._clock.now() + RETRY_AFTER
            log.exception("retention_failed")
        finally:
            self._task = None
            self._alarm.set(due)

    def _next_due(self, reader: Reader) -> int | None:
        return min((time for *_, time in _due(reader, self._rules)), default=None)


def _due(reader: Reader, rules: Rules) -> Iterator[Due]:
    """What is to be done to the jobs of each lane. A job that may be retired is not erased before."""
    for stage in (HOLDING, BARE, KEYED):
        for lane, earliest in reader.ending_lanes(stage):
            subjects = ("keys",) if stage == KEYED else (lane.state.value, "payloads")[: 2 if stage == HOLDING else 1]
            for subject in subjects:
                rule = rules.about(subject, lane.queue, lane.kind)
                if rule is not None:
                    yield lane, subject, rule, earliest + rule.age


def plan(reader: Reader, rules: Rules, now: int) -> list[Command]:
    """The commands of the next step; of one job, one. Costs a seek for each lane and the reads of the step's jobs."""
    commands: dict[str, Command] = {}
    records = 0
    for lane, subject, rule, due in _due(reader, rules):
        if due > now:
            continue
        for job_id in reader.ended(lane, now - rule.age, STEP_JOBS - len(commands)):
            job = reader.job(job_id)
            records += 1 if job is None else job.version
            if commands and records > STEP_RECORDS:
                return list(commands.values())
            commands.setdefault(job_id, _command(subject, job_id, rule, now))
        if len(commands) >= STEP_JOBS:
            break
    return list(commands.values())


def _command(subject: str, job_id: str, rule: Rule, now: int) -> Command:
    if subject == "payloads":
        return Erase(job_id=job_id, reason=rule.text, now=now, actor=RETENTION)
    if subject == "keys":
        return ForgetKey(job_id=job_id, rule=rule.text, now=now, actor=RETENTION)
    return Retire(job_id=job_id, rule=rule.text, now=now, actor=RETENTION)
