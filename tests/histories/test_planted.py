"""The judge sees wrong rules in what clients see of them: a coordinator in this process, with one bug planted."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Callable

import orjson
import pytest
from aiohttp import web

from eventjobs.api import routes_jobs
from eventjobs.api.app import RUNNER_OPTIONS, build_app
from eventjobs.api.render import stored_job
from eventjobs.coordinator import handler
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.rescuer import Rescuer
from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.decide import Decision, KeyHolder, decide
from eventjobs.domain.job import Job, State
from eventjobs.domain.value import changed as with_changes
from eventjobs.projections.history import History
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing.histories import IllegalHistory, Recorder, check
from eventjobs.testing.histories.crowd import Crowd

OPERATIONS = 150
"""Recorded before each judgement."""
JUDGEMENTS_MAX = 20
LATE = 500_000
"""Microseconds."""

Rules = Callable[[Job | KeyHolder | None, c.Command], Decision]


def blind_to_tokens(command_type: type) -> Rules:
    """The command is obeyed whatever token it shows, as long as the job is running."""

    def rules(job, command):
        if isinstance(command, command_type) and job is not None and job.state is State.RUNNING:
            command = with_changes(command, token=job.lease_token)
        return decide(job, command)

    return rules


def changed(event_type: type, **changes: Callable[[e.Event, c.Command], object]) -> Rules:
    """An event is decided with other values than it should be."""

    def rules(job, command):
        decision = decide(job, command)
        if isinstance(decision, tuple) and decision and isinstance(decision[0], event_type):
            (event,) = decision
            return (with_changes(event, **{name: value(event, command) for name, value in changes.items()}),)
        return decision

    return rules


def allowed(command_type: type, state: State, event: Callable[[Job, c.Command], e.Event]) -> Rules:
    """The command is obeyed in a state in which it should not be."""

    def rules(job, command):
        if isinstance(command, command_type) and job is not None and job.state is state:
            return (event(job, command),)
        return decide(job, command)

    return rules


def without_keys(job, command):
    """Idempotency keys are not looked at."""
    return decide(None if isinstance(command, c.Enqueue) else job, command)


def renewing_what_ran_out(job, command):
    """A renewal is never too late."""
    if isinstance(command, c.Renew) and job is not None and job.lease is not None:
        job = with_changes(job, lease=with_changes(job.lease, expires_at=max(job.lease.expires_at, command.now + 1)))
    return decide(job, command)


BUGS: dict[str, Rules] = {
    "complete does not compare the token": blind_to_tokens(c.Complete),
    "fail does not compare the token": blind_to_tokens(c.Fail),
    "renew does not compare the token": blind_to_tokens(c.Renew),
    "a token is given twice": changed(e.JobLeased, token=lambda event, _: max(1, event.token - 1)),
    "an expiry does not count": changed(e.LeaseExpired, attempt=lambda event, _: event.attempt - 1),
    "a retry does not wait": changed(e.AttemptFailed, run_at=lambda event, command: command.now),
    "a result can be replaced": allowed(
        c.Complete, State.SUCCEEDED, lambda job, command: e.JobCompleted(command.token, job.attempts, None)
    ),
    "what succeeded can be canceled": allowed(c.Cancel, State.SUCCEEDED, lambda _, command: e.JobCanceled(None)),
    "what runs can be requeued": allowed(c.Requeue, State.RUNNING, lambda _, command: e.JobRequeued(command.now)),
    "an idempotency key is not looked at": without_keys,
    "a lease is renewed after it ran out": renewing_what_ran_out,
}


@pytest.fixture
async def url(monkeypatch) -> AsyncIterator[str]:
    """Where a coordinator of this process listens.

    Its rescuer is late, so that there are leases which ran out and are not taken. Read models that count on sound
    rules are left out, and whoever does what no lease allows has a name to do it under.
    """
    expect = Rescuer.expect

    def expect_late(self, expiry):
        expect(self, None if expiry is None else expiry + LATE)

    def named(job, command):
        return command.actor if command.actor.id else c.Actor(command.actor.type, "whoever")

    monkeypatch.setattr(Rescuer, "expect", expect_late)
    monkeypatch.setattr(handler, "_actor", named)
    coordinator = await Coordinator.start(MemoryEngine((History(),)))
    runner = web.AppRunner(build_app(coordinator), **RUNNER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    coordinator.drain()
    await runner.cleanup()
    await coordinator.stop()


async def what_is_seen(url: str) -> str:
    """What the checker says once it sees something, of one crowd after another on the same coordinator."""
    recorder = Recorder()
    for seed in range(JUDGEMENTS_MAX):
        crowd = Crowd(url, seed, recorder=recorder)
        await crowd.run(lambda crowd: crowd.recorded(OPERATIONS))
        for history in recorder.histories():
            try:
                check(history, recorder.tolerance())
            except IllegalHistory as illegal:
                return str(illegal)
    raise AssertionError("nothing was seen")


@pytest.mark.parametrize("bug", BUGS)
async def test_wrong_rules_are_seen(url, monkeypatch, bug):
    """No history with this bug stays legal for long."""
    monkeypatch.setattr(handler, "decide", BUGS[bug])
    assert "None of these can be the next" in await what_is_seen(url)


async def test_old_news_are_seen(url, monkeypatch):
    """A look that shows what an earlier one saw is no look at the job as it is."""
    seen: dict[str, bytes] = {}

    def one_look_late(view, job):
        shown, seen[job.id] = seen.get(job.id), orjson.dumps(stored_job(view, job))
        return orjson.loads(shown or seen[job.id])

    monkeypatch.setattr(routes_jobs, "stored_job", one_look_late)
    assert "get()" in await what_is_seen(url)


async def test_a_store_that_forgets_is_seen(coordinator, tmp_path):
    """A coordinator that comes back without what it last acknowledged cannot hide it."""
    kept = tmp_path / "kept"

    async def forget(crowd: Crowd) -> None:
        await crowd.recorded(OPERATIONS)
        coordinator.process.send(signal.SIGSTOP)
        shutil.copytree(coordinator.data, kept)
        coordinator.process.send(signal.SIGCONT)
        await crowd.recorded(OPERATIONS // 3)
        crowd.up.clear()
        coordinator.kill()
        shutil.rmtree(coordinator.data)
        kept.rename(coordinator.data)
        await asyncio.to_thread(coordinator.restart)
        crowd.up.set()
        await crowd.recorded(OPERATIONS // 3)

    crowd = Crowd(coordinator.url, seed=1)
    await crowd.run(forget)
    with pytest.raises(IllegalHistory):
        for history in crowd.recorder.histories():
            check(history, crowd.recorder.tolerance())


async def test_nothing_is_seen_where_nothing_is_wrong(url, judge):
    """The same coordinator without a bug passes."""
    crowd = Crowd(url, seed=1)
    await crowd.run(lambda crowd: crowd.recorded(3 * OPERATIONS))
    await judge(crowd)
