"""The searches can fail: under each wrong rule they find a broken promise, and a short way to it."""

from __future__ import annotations

import pytest

from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.decide import UNCHANGED, KeyHolder, decide
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import State
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.value import changed
from eventjobs.testing.explore import Move, explore, run_dry
from eventjobs.testing.network_world import NetworkWorld, Scope
from eventjobs.testing.small_world import AnyoneWorld
from eventjobs.testing.tracked_job import NOW, TICK, Rules


def token_not_compared(of: type):
    """The token of one sort of command is taken for the current one."""

    def wrong(job, command):
        if isinstance(command, of):
            command = changed(command, token=job.lease_token)
        return decide(job, command)

    return wrong


def greater_tokens_pass(job, command):
    """Tokens are compared with >=."""
    if hasattr(command, "token"):
        command = changed(command, token=min(command.token, job.lease_token))
    return decide(job, command)


def older_tokens_pass(job, command):
    """Tokens are compared with <=."""
    if hasattr(command, "token"):
        command = changed(command, token=max(command.token, job.lease_token))
    return decide(job, command)


def changed_events(of: type, **changes):
    """Events of one sort say something else. A change is a function of the job and the event."""

    def wrong(job, command):
        decision = decide(job, command)
        if isinstance(decision, Rejection) or not decision or not isinstance(decision[0], of):
            return decision
        event = decision[0]
        return (changed(event, **{name: change(job, event) for name, change in changes.items()}),)

    return wrong


def instead(applies, answer):
    """Where `applies` is true of job and command, `answer` is what is decided."""
    return lambda job, command: answer(job, command) if applies(job, command) else decide(job, command)


def expiry_ignored_in_renew(job, command):
    """A lease that has run out, or never did, is renewed."""
    if isinstance(command, c.Renew) and job.lease is not None:
        job = changed(job, lease=changed(job.lease, expires_at=max(job.lease.expires_at, NOW + 1)))
    return decide(job, command)


def due_ignored_in_lease(job, command):
    """A job is leased before its time."""
    return decide(changed(job, run_at=NOW) if isinstance(command, c.Lease) else job, command)


def of_state(sort: type, *states: State):
    """Whether a command of the sort meets a job in one of the states."""
    return lambda job, command: isinstance(command, sort) and job.state in states


def exhausted(job) -> bool:
    return job.attempts >= job.spec.max_attempts


REFUSED = Rejection(Code.STALE_TOKEN, "wrongly refused")

WRONG_DECISIONS = {
    "token not compared in complete": token_not_compared(c.Complete),
    "token not compared in fail": token_not_compared(c.Fail),
    "token not compared in renew": token_not_compared(c.Renew),
    "token not compared in release": token_not_compared(c.Release),
    "greater tokens pass": greater_tokens_pass,
    "older tokens pass": older_tokens_pass,
    "token not raised on lease": changed_events(e.JobLeased, token=lambda job, event: max(1, job.lease_token)),
    "token is the attempt's number": changed_events(e.JobLeased, token=lambda job, event: event.attempt),
    "expiry ignored in renew": expiry_ignored_in_renew,
    "renew may move the expiry backwards": changed_events(e.LeaseRenewed, expires_at=lambda job, event: NOW + TICK),
    "attempt not counted on expiry": changed_events(e.LeaseExpired, attempt=lambda job, event: event.attempt - 1),
    "attempt not counted on failure": changed_events(e.AttemptFailed, attempt=lambda job, event: event.attempt - 1),
    "attempts without bound after failures": instead(
        lambda job, command: isinstance(command, c.Fail) and command.retry and job.lease is not None and exhausted(job),
        lambda job, command: decide(changed(job, spec=changed(job.spec, max_attempts=99)), command),
    ),
    "attempts without bound after expiries": instead(
        lambda job, command: isinstance(command, c.Expire) and exhausted(job),
        lambda job, command: decide(changed(job, spec=changed(job.spec, max_attempts=99)), command),
    ),
    "exhausted attempts never expire": instead(
        lambda job, command: isinstance(command, c.Expire) and exhausted(job), lambda job, command: REFUSED
    ),
    "a lease is ended before its time": instead(
        of_state(c.Expire, State.RUNNING), lambda job, command: (e.LeaseExpired(job.lease_token, job.attempts, NOW),)
    ),
    "a repeated complete is recorded again": instead(
        of_state(c.Complete, State.SUCCEEDED),
        lambda job, command: (e.JobCompleted(command.token, job.attempts, command.result.digest()),),
    ),
    "a repeated complete is refused": instead(of_state(c.Complete, State.SUCCEEDED), lambda job, command: REFUSED),
    "any complete of a succeeded job is answered as done": instead(
        of_state(c.Complete, State.SUCCEEDED), lambda job, command: UNCHANGED
    ),
    "a repeated fail is recorded again": instead(
        lambda job, command: isinstance(command, c.Fail) and job.state is State.FAILED
        and job.lease_token == command.token,
        lambda job, command: (e.AttemptFailed(command.token, job.attempts, NOW, command.error.digest()),),
    ),
    "a repeated fail is refused": instead(
        of_state(c.Fail, State.FAILED, State.DEAD), lambda job, command: REFUSED
    ),
    "a failure after the last expiry is answered as done": instead(
        lambda job, command: isinstance(command, c.Fail) and job.state is State.DEAD
        and job.lease_token == command.token,
        lambda job, command: UNCHANGED,
    ),
    "a complete after the expiry's time is refused": instead(
        lambda job, command: isinstance(command, c.Complete) and job.lease is not None
        and job.lease.expires_at <= NOW,
        lambda job, command: REFUSED,
    ),
    "a job is leased before its time": due_ignored_in_lease,
    "a canceled job is leased": instead(
        of_state(c.Lease, State.CANCELED), lambda job, command: decide(changed(job, state=State.QUEUED), command)
    ),
    "a running job is leased": instead(
        of_state(c.Lease, State.RUNNING), lambda job, command: decide(changed(job, state=State.QUEUED), command)
    ),
    "a failed job is never leased again": instead(of_state(c.Lease, State.FAILED), lambda job, command: REFUSED),
    "a succeeded job is requeued": instead(
        of_state(c.Requeue, State.SUCCEEDED), lambda job, command: (e.JobRequeued(NOW),)
    ),
    "a succeeded job is canceled": instead(
        of_state(c.Cancel, State.SUCCEEDED), lambda job, command: (e.JobCanceled(None),)
    ),
    "a running job cannot be canceled": instead(of_state(c.Cancel, State.RUNNING), lambda job, command: REFUSED),
    "the same enqueue makes another job": lambda job, command: decide(
        None if isinstance(job, KeyHolder) else job, command
    ),
}  # fmt: skip


def after(sort: type, **changes):
    """An event of the sort leads to another job. A change is a function of the job before."""

    def wrong(job, record):
        found = evolve(job, record)
        if isinstance(record.event, sort):
            found = changed(found, **{name: change(job) for name, change in changes.items()})
        return found

    return wrong


WRONG_MEANINGS = {
    "token reset on requeue": after(e.JobRequeued, lease_token=lambda job: 0),
    "token raised on renew": after(e.LeaseRenewed, lease_token=lambda job: job.lease_token + 1),
    "token reset on release": after(e.LeaseReleased, lease_token=lambda job: job.lease_token - 1),
    "attempt counted on release": after(e.LeaseReleased, attempts=lambda job: job.attempts),
    "attempts kept on requeue": after(e.JobRequeued, attempts=lambda job: job.attempts),
    "attempt not counted on lease": after(e.JobLeased, attempts=lambda job: job.attempts),
    "a version is given twice": after(e.LeaseRenewed, version=lambda job: job.version),
    "the lease stays after the end": after(e.JobCompleted, lease=lambda job: job.lease),
}

WRONG = {name: {"decide": wrong} for name, wrong in WRONG_DECISIONS.items()}
WRONG |= {name: {"evolve": wrong} for name, wrong in WRONG_MEANINGS.items()}
ONLY_BY_GUESSING = {"greater tokens pass", "renew may move the expiry backwards"}
"""Workers that keep to the protocol show no token before they are granted it, and renew for their lease's duration."""


@pytest.mark.parametrize("name", WRONG)
def test_anyone_finds_it(name):
    """The search with no manners sees each wrong rule break a promise within ten steps."""
    found = explore(AnyoneWorld(Rules(2, **WRONG[name]), tokens_max=3)).counter_example
    assert found is not None
    assert len(found.steps) <= 10, str(found)


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ONLY_BY_GUESSING])
def test_it_happens_to_workers_who_keep_to_the_protocol(name):
    """A bad network and honest workers are enough to meet it, within fifteen steps."""
    found = explore(NetworkWorld(Rules(2, **WRONG[name]), Scope())).counter_example
    assert found is not None
    assert len(found.steps) <= 15, str(found)


def test_a_counter_example_reads_as_a_story():
    """The nearest way to a result overwritten by a worker that lost its lease, word by word."""
    rules = Rules(2, lease_ticks=1, decide=token_not_compared(c.Complete))
    found = explore(NetworkWorld(rules, Scope())).counter_example
    assert str(found).splitlines() == [
        "a command with another token changed the job, after 6 steps:",
        "  1. a worker leases job 1 with token 1",
        "  2. time passes",
        "  3. the rescuer looks at job 1",
        "  4. a worker leases job 1 with token 2",
        "  5. the worker sends: complete job 1 with token 1",
        "  6. arrives: complete job 1 with token 1; the answer is done; a copy is still under way",
    ]


class WithoutRescuer(NetworkWorld):
    """Nobody looks for leases that ran out."""

    def moves(self, state):
        return (move for move in super().moves(state) if move.what[0] != "expire")

    def calm_moves(self, state):
        return (move for move in super().calm_moves(state) if move.what[0] != "expire")


def test_without_a_rescuer_a_job_is_stuck():
    """No promise about a single step is broken, and yet a job waits for ever: a worker took it and crashed."""
    world = WithoutRescuer(Rules(), Scope(workers=1, tokens=1, in_flight=1))
    explored = explore(world)
    assert explored.counter_example is None
    _, stuck = run_dry(world, explored)
    assert str(stuck).splitlines() == [
        "nothing more can happen, and not all is done, after 4 steps:",
        "  1. a worker leases job 1 with token 1, but the answer is lost",
        "  2. faults end",
        "  3. time passes",
        "  4. time passes",
    ]


class Unbounded(NetworkWorld):
    """A world that calls a tick of the clock nothing, so that a way comes round to where it was."""

    def calm_moves(self, state):
        yield Move(("tick",), state)


def test_a_way_that_goes_round_is_found():
    """A calm way that comes back to a state it has met is no end."""
    world = Unbounded(Rules(), Scope(workers=1, tokens=1, in_flight=1))
    _, stuck = run_dry(world, explore(world))
    assert stuck.broken == "this goes round for ever"


def test_a_search_is_bounded():
    """A world that is larger than was thought ends the search, and does not fill the memory."""
    with pytest.raises(MemoryError, match="more than 1000 states"):
        explore(NetworkWorld(Rules(), Scope()), states_max=1_000)
