"""The lifecycle table: every command on a job in every situation, each with the one outcome that is right.

Rows are situations at `at(10)`, columns commands. A cell names the event that is appended, or
same: nothing is appended, the command already had its effect; or the rejection:
stale stale_token · ran-out lease_expired · illegal illegal_transition · reused idempotency_key_reused ·
absent job_not_found · not-due not_available · held not_expired.
"""

from __future__ import annotations

import pytest

from eventjobs.domain import commands as c
from eventjobs.domain.job import DeathCause, State
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.testing import builders as b
from eventjobs.testing.given import UNCHANGED, given

START = [b.enqueued(), b.leased()]
LAPSED = b.leased(expires_at=b.at(10))
LAST = b.leased(attempt=5)
LAST_LAPSED = b.leased(attempt=5, expires_at=b.at(10))
BY_EXPIRY = b.died(cause=DeathCause.LEASE_EXPIRED, error=None)
AGAIN = b.leased(token=2, attempt=2, expires_at=b.at(40))
AFRESH = b.leased(token=2, attempt=1, expires_at=b.at(40))

SITUATIONS = {
    "no-job": [],
    "queued": [b.enqueued()],
    "queued:later": [b.enqueued(run_at=b.at(60))],
    "queued:released": [*START, b.released()],
    "queued:expired": [*START, b.expired()],
    "queued:requeued": [*START, b.died(), b.requeued()],
    "running": START,
    "running:lapsed": [b.enqueued(), LAPSED],
    "running:renewed": [*START, b.renewed()],
    "running:last": [b.enqueued(), LAST],
    "running:last:lapsed": [b.enqueued(), LAST_LAPSED],
    "running:again": [*START, b.failed(run_at=b.at(5)), AGAIN],
    "running:requeued": [*START, b.died(), b.requeued(), AFRESH],
    "failed": [*START, b.failed(run_at=b.at(5))],
    "failed:later": [*START, b.failed(run_at=b.at(60))],
    "succeeded": [*START, b.completed()],
    "dead:exhausted": [b.enqueued(), LAST, b.died()],
    "dead:unwanted": [*START, b.died(cause=DeathCause.NOT_RETRYABLE)],
    "dead:expired": [b.enqueued(), LAST, BY_EXPIRY],
    "canceled:queued": [b.enqueued(), b.canceled()],
    "canceled:running": [*START, b.canceled()],
    "canceled:failed": [*START, b.failed(), b.canceled()],
    "succeeded:keyed": [b.enqueued(idempotency_key="k"), b.leased(), b.completed()],
    "succeeded:erased": [*START, b.completed(), b.erased(result=3)],
    "dead:erased": [*START, b.died(), b.erased(errors=(3,))],
    "dead:bare": [b.enqueued(payload=None), b.leased(), b.died(), b.erased(payload=None, errors=(3,))],
    "retired": [*START, b.completed(), b.retired(result=3)],
    "retired:keyed": [b.enqueued(idempotency_key="k"), b.canceled(), b.retired()],
}

COMMANDS = {
    "enqueue": lambda token: b.enqueue(),
    "enqueue!": lambda token: b.enqueue(priority=1),
    "lease": lambda token: b.lease(),
    "renew": lambda token: b.renew(token=token),
    "renew!": lambda token: b.renew(token=token + 1),
    "complete": lambda token: b.complete(token=token),
    "complete!": lambda token: b.complete(token=token + 1),
    "fail": lambda token: b.fail(token=token),
    "fail:final": lambda token: b.fail(token=token, retry=False),
    "fail!": lambda token: b.fail(token=token + 1),
    "release": lambda token: b.release(token=token),
    "release!": lambda token: b.release(token=token + 1),
    "expire": lambda token: b.expire(),
    "cancel": lambda token: b.cancel(),
    "requeue": lambda token: b.requeue(),
    "erase": lambda token: b.erase(),
    "retire": lambda token: b.retire(),
    "forget": lambda token: b.forget_key(),
}
"""Commands by column, made with the job's current token. Those with ! ask for something else than was recorded."""

WITHOUT_TOKEN = """
situation           enqueue  enqueue! lease   expire  cancel   requeue
no-job              enqueued enqueued absent  absent  absent   absent
queued              same     reused   leased  held    canceled illegal
queued:later        same     reused   not-due held    canceled illegal
queued:released     same     reused   leased  held    canceled illegal
queued:expired      same     reused   leased  held    canceled illegal
queued:requeued     same     reused   leased  held    canceled illegal
running             same     reused   not-due held    canceled illegal
running:lapsed      same     reused   not-due expired canceled illegal
running:renewed     same     reused   not-due held    canceled illegal
running:last        same     reused   not-due held    canceled illegal
running:last:lapsed same     reused   not-due died    canceled illegal
running:again       same     reused   not-due held    canceled illegal
running:requeued    same     reused   not-due held    canceled illegal
failed              same     reused   leased  held    canceled illegal
failed:later        same     reused   not-due held    canceled illegal
succeeded           same     reused   not-due held    illegal  illegal
dead:exhausted      same     reused   not-due held    illegal  requeued
dead:unwanted       same     reused   not-due held    illegal  requeued
dead:expired        same     reused   not-due held    illegal  requeued
canceled:queued     same     reused   not-due held    same     illegal
canceled:running    same     reused   not-due held    same     illegal
canceled:failed     same     reused   not-due held    same     illegal
succeeded:keyed     same     reused   not-due held    illegal  illegal
succeeded:erased    same     reused   not-due held    illegal  illegal
dead:erased         same     reused   not-due held    illegal  illegal
dead:bare           same     reused   not-due held    illegal  requeued
retired             same     reused   absent  absent  absent   absent
retired:keyed       same     reused   absent  absent  absent   absent
"""

WITH_TOKEN = """
situation           renew   renew! complete  complete! fail   fail:final fail!  release  release!
no-job              absent  absent absent    absent    absent absent     absent absent   absent
queued              stale   stale  stale     stale     stale  stale      stale  stale    stale
queued:later        stale   stale  stale     stale     stale  stale      stale  stale    stale
queued:released     stale   stale  stale     stale     stale  stale      stale  stale    stale
queued:expired      stale   stale  stale     stale     stale  stale      stale  stale    stale
queued:requeued     stale   stale  stale     stale     stale  stale      stale  stale    stale
running             renewed stale  completed stale     failed died       stale  released stale
running:lapsed      ran-out stale  completed stale     failed died       stale  released stale
running:renewed     renewed stale  completed stale     failed died       stale  released stale
running:last        renewed stale  completed stale     died   died       stale  released stale
running:last:lapsed ran-out stale  completed stale     died   died       stale  released stale
running:again       renewed stale  completed stale     failed died       stale  released stale
running:requeued    renewed stale  completed stale     failed died       stale  released stale
failed              stale   stale  stale     stale     same   same       stale  stale    stale
failed:later        stale   stale  stale     stale     same   same       stale  stale    stale
succeeded           stale   stale  same      stale     stale  stale      stale  stale    stale
dead:exhausted      stale   stale  stale     stale     same   same       stale  stale    stale
dead:unwanted       stale   stale  stale     stale     same   same       stale  stale    stale
dead:expired        stale   stale  stale     stale     stale  stale      stale  stale    stale
canceled:queued     stale   stale  stale     stale     stale  stale      stale  stale    stale
canceled:running    stale   stale  stale     stale     stale  stale      stale  stale    stale
canceled:failed     stale   stale  stale     stale     stale  stale      stale  stale    stale
succeeded:keyed     stale   stale  same      stale     stale  stale      stale  stale    stale
succeeded:erased    stale   stale  same      stale     stale  stale      stale  stale    stale
dead:erased         stale   stale  stale     stale     same   same       stale  stale    stale
dead:bare           stale   stale  stale     stale     same   same       stale  stale    stale
retired             absent  absent absent    absent    absent absent     absent absent   absent
retired:keyed       absent  absent absent    absent    absent absent     absent absent   absent
"""

RETENTION = """
situation           erase   retire  forget
no-job              absent  absent  absent
queued              illegal illegal illegal
queued:later        illegal illegal illegal
queued:released     illegal illegal illegal
queued:expired      illegal illegal illegal
queued:requeued     illegal illegal illegal
running             illegal illegal illegal
running:lapsed      illegal illegal illegal
running:renewed     illegal illegal illegal
running:last        illegal illegal illegal
running:last:lapsed illegal illegal illegal
running:again       illegal illegal illegal
running:requeued    illegal illegal illegal
failed              illegal illegal illegal
failed:later        illegal illegal illegal
succeeded           erased  retired same
dead:exhausted      erased  retired same
dead:unwanted       erased  retired same
dead:expired        erased  retired same
canceled:queued     erased  retired same
canceled:running    erased  retired same
canceled:failed     erased  retired same
succeeded:keyed     erased  retired forgotten
succeeded:erased    same    retired same
dead:erased         same    retired same
dead:bare           same    retired same
retired             absent  absent  same
retired:keyed       absent  absent  forgotten
"""

CODES = {
    "stale": Code.STALE_TOKEN,
    "ran-out": Code.LEASE_EXPIRED,
    "illegal": Code.ILLEGAL_TRANSITION,
    "reused": Code.IDEMPOTENCY_KEY_REUSED,
    "absent": Code.JOB_NOT_FOUND,
    "not-due": Code.NOT_AVAILABLE,
    "held": Code.NOT_EXPIRED,
}
EVENTS = {
    "enqueued": "job_enqueued",
    "leased": "job_leased",
    "renewed": "lease_renewed",
    "released": "lease_released",
    "expired": "lease_expired",
    "completed": "job_completed",
    "failed": "attempt_failed",
    "died": "job_died",
    "canceled": "job_canceled",
    "requeued": "job_requeued",
    "erased": "contents_erased",
    "retired": "job_retired",
    "forgotten": "idempotency_key_forgotten",
}


def parsed(table: str) -> dict[tuple[str, str], str]:
    """A table's cells by (situation, command)."""
    header, *lines = [line.split() for line in table.strip().splitlines()]
    return {
        (situation, command): cell for situation, *row in lines for command, cell in zip(header[1:], row, strict=True)
    }


CELLS = parsed(WITHOUT_TOKEN) | parsed(WITH_TOKEN) | parsed(RETENTION)


def decided(situation: str, command: str):
    past = given(*SITUATIONS[situation])
    token = 1 if past.job is None else past.job.lease_token
    return past.when(COMMANDS[command](token))


@pytest.mark.parametrize(("situation", "command"), CELLS, ids=lambda name: name)
def test_cell(situation, command):
    """The decision is the one the table says."""
    decision = decided(situation, command).decision
    match CELLS[situation, command]:
        case "same":
            assert decision == UNCHANGED
        case cell if cell in CODES:
            assert isinstance(decision, Rejection) and decision.code is CODES[cell]
        case cell:
            assert [event.type for event in decision] == [EVENTS[cell]]


def test_the_table_is_complete():
    """Every situation meets every command; every command, state, event and code of the lifecycle is met."""
    assert set(CELLS) == {(situation, command) for situation in SITUATIONS for command in COMMANDS}
    assert {type(make(1)) for make in COMMANDS.values()} == set(c.Command.__args__)
    assert {given(*past).job.state for past in SITUATIONS.values() if past} == set(State)
    assert set(CELLS.values()) == {"same", *CODES, *EVENTS}
    assert set(CODES.values()) == set(Code) - {Code.STORAGE_FULL}


@pytest.mark.parametrize("situation", [name for name, past in SITUATIONS.items() if past])
def test_a_rejection_shows_the_job_as_it_stands(situation):
    """A refusal on the wire carries the job, unchanged."""
    for command in COMMANDS:
        met = decided(situation, command)
        if isinstance(met.decision, Rejection) and met.decision.code is Code.JOB_NOT_FOUND:
            assert met.job.retired and met.decision.job is None
        elif isinstance(met.decision, Rejection) and met.decision.code is not Code.NOT_AVAILABLE:
            assert met.decision.job is met.job and met.decision.message


@pytest.mark.parametrize("situation", [name for name, past in SITUATIONS.items() if past])
def test_a_token_never_shrinks_and_a_lease_makes_it_grow(situation):
    """Whatever is asked, the token stays or, on a lease, grows by one; the version grows by one an event."""
    for command in COMMANDS:
        met = decided(situation, command)
        if command.startswith("enqueue"):
            continue
        after = met.job_after()
        assert after.lease_token - met.job.lease_token == (CELLS[situation, command] == "leased")
        assert after.version - met.job.version == (CELLS[situation, command] in EVENTS)


@pytest.mark.parametrize("situation", [name for name, past in SITUATIONS.items() if past])
def test_fields_fit_the_state(situation):
    """Lease exactly while running, cause exactly while dead, an end time exactly at the end, one last error."""
    for command in ["lease", "renew", "complete", "fail", "fail:final", "release", "expire", "cancel", "requeue"]:
        job = decided(situation, command).job_after()
        assert (job.lease is not None) == (job.state is State.RUNNING)
        assert (job.death_cause is not None) == (job.state is State.DEAD)
        assert (job.finished_at is not None) == (job.state in {State.SUCCEEDED, State.DEAD, State.CANCELED})
        assert job.error is None or job.lapse is None
        assert job.result is None or job.state is State.SUCCEEDED
        assert 0 <= job.attempts <= job.spec.max_attempts
