"""What each command decides, row by row: the values inside the events, and the order of refusals."""

from __future__ import annotations

import pytest

from eventjobs.domain.job import DeathCause, Lapse, Lease, State
from eventjobs.domain.rejections import Code
from eventjobs.domain.retry import Constant, Exponential, Linear
from eventjobs.testing import builders as b
from eventjobs.testing.given import UNCHANGED, given

RUNNING = [b.enqueued(), b.leased()]
LAPSED = [b.enqueued(), b.leased(expires_at=b.at(9))]
AGAIN = [*RUNNING, b.failed(run_at=b.at(5)), b.leased(token=2, attempt=2)]


# Enqueue


def test_a_new_job_waits_with_nothing_counted():
    """Enqueue: queued, no attempts, token 0, due at once."""
    job = given().when(b.enqueue()).then(b.enqueued())
    assert (job.state, job.attempts, job.lease_token, job.run_at) == (State.QUEUED, 0, 0, b.START)
    assert (job.version, job.spec.created_at, job.updated_at, job.finished_at) == (1, b.START, b.START, None)


@pytest.mark.parametrize(
    ("asked", "run_at"),
    [
        ({"delay": b.seconds(5)}, b.at(5)),
        ({"delay": 0}, b.at(0)),
        ({"run_at": b.at(99)}, b.at(99)),
        ({"run_at": b.at(-99)}, b.at(-99)),
    ],
)
def test_a_schedule_is_kept_as_asked_and_as_decided(asked, run_at):
    """A delay counts from now, a run_at stands as it is, past or future; what was sent is kept beside it."""
    expected = b.enqueued(asked_run_at=asked.get("run_at"), asked_delay=asked.get("delay"), run_at=run_at)
    assert given().when(b.enqueue(**asked)).then(expected).run_at == run_at


def test_a_null_payload_is_no_content():
    """A payload of JSON null is not written."""
    assert given().when(b.enqueue(payload=None)).then(b.enqueued(payload=None)).spec.payload is None


@pytest.mark.parametrize("text", ['{"n": 1}', '{"n":1}', ' {\n"n"\t: 1 } '])
def test_the_same_request_again_is_the_same_job(text):
    """White space between the payload's tokens, another salt, id or time do not make another request."""
    again = b.enqueue(b.an_id(2), payload=b.content(text, salt=9), now=b.at(99))
    given(b.enqueued()).when(again).then(UNCHANGED)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "sms"},
        {"queue": "slow"},
        {"priority": 1},
        {"max_attempts": 4},
        {"retry_policy": Constant(base=1)},
        {"retry_policy": Exponential(base=2)},
        {"run_at": b.START},
        {"delay": 0},
        {"payload": None},
        {"payload": b.content('{"n": 1.0}')},
        {"payload": b.content('{"n": "1"}')},
    ],
    ids=str,
)
def test_a_different_request_under_the_key_is_refused(other):
    """Any field asked for differently, also when it comes to the same effect, is another request."""
    given(b.enqueued()).when(b.enqueue(**other)).then(Code.IDEMPOTENCY_KEY_REUSED)


def test_a_schedule_is_compared_as_sent():
    """The same delay is the same request later; the run_at it came to is not."""
    past = given(b.enqueued(asked_delay=b.seconds(5), run_at=b.at(5)))
    past.when(b.enqueue(delay=b.seconds(5), now=b.at(60))).then(UNCHANGED)
    past.when(b.enqueue(run_at=b.at(5))).then(Code.IDEMPOTENCY_KEY_REUSED)


def test_a_null_payload_matches_only_null():
    """A job without payload is not asked for again by one with."""
    past = given(b.enqueued(payload=None), payload=None)
    past.when(b.enqueue(payload=None)).then(UNCHANGED)
    past.when(b.enqueue(payload=b.content('""'))).then(Code.IDEMPOTENCY_KEY_REUSED)


def test_space_inside_a_string_counts():
    """Only insignificant space is left out of the comparison."""
    past = given(b.enqueued(payload=b.content('"a b"')), payload=b.content('"a b"'))
    past.when(b.enqueue(payload=b.content('"ab"'))).then(Code.IDEMPOTENCY_KEY_REUSED)


# Lease


def test_a_lease_counts_an_attempt_and_raises_the_token():
    """Lease: running; attempts and token one higher; owner and expiry set."""
    job = given(b.enqueued()).when(b.lease(request_id="r")).then(b.leased(expires_at=b.at(40), request_id="r"))
    assert job.lease == Lease(b.WORKER, b.at(40), b.LEASE, b.NOW)
    assert (job.state, job.attempts, job.lease_token) == (State.RUNNING, 1, 1)


def test_a_job_due_this_very_microsecond_is_leased():
    """run_at <= now is due; one microsecond later is not."""
    given(b.enqueued(run_at=b.NOW)).when(b.lease()).then(b.leased(expires_at=b.at(40)))
    given(b.enqueued(run_at=b.NOW + 1)).when(b.lease()).then(Code.NOT_AVAILABLE)


def test_a_failed_job_is_leased_for_its_next_attempt():
    """The second attempt carries the second token, and the last error stays in sight."""
    job = (
        given(*RUNNING, b.failed(run_at=b.at(5)))
        .when(b.lease())
        .then(b.leased(token=2, attempt=2, expires_at=b.at(40)))
    )
    assert job.error is not None


def test_tokens_grow_across_a_requeue():
    """Attempts start again after a requeue, tokens do not."""
    past = given(*AGAIN, b.died(token=2, attempt=2), b.requeued())
    assert past.job.attempts == 0
    past.when(b.lease()).then(b.leased(token=3, attempt=1, expires_at=b.at(40)))


def test_tokens_grow_across_a_release():
    """The attempt is given back, the token is not."""
    given(*RUNNING, b.released()).when(b.lease()).then(b.leased(token=2, attempt=1, expires_at=b.at(40)))


# Renew


def test_a_renewal_adds_the_leases_own_duration_or_the_asked_one():
    """Expiry is now plus the duration."""
    given(*RUNNING).when(b.renew()).then(b.renewed(expires_at=b.at(40)))
    job = given(*RUNNING).when(b.renew(duration=b.seconds(90))).then(b.renewed(expires_at=b.at(100)))
    assert job.lease == Lease(b.WORKER, b.at(100), b.LEASE, b.at(1))


def test_a_renewal_never_moves_the_expiry_backwards():
    """A shorter renewal leaves the expiry where it is."""
    given(*RUNNING).when(b.renew(duration=b.seconds(1))).then(b.renewed(expires_at=b.at(30)))


def test_a_renewal_comes_too_late_at_the_expiry():
    """now < expiry or nothing, though the expiry is not in the log yet."""
    given(*RUNNING).when(b.renew(now=b.at(30) - 1)).then(b.renewed(expires_at=b.at(60) - 1))
    given(*RUNNING).when(b.renew(now=b.at(30))).then(Code.LEASE_EXPIRED)


def test_a_foreign_token_is_stale_before_it_is_late():
    """stale_token goes before lease_expired."""
    given(*LAPSED).when(b.renew(token=9)).then(Code.STALE_TOKEN)


def test_a_canceled_jobs_worker_learns_it_at_its_renewal():
    """The token of a canceled job is dead."""
    given(*RUNNING, b.canceled()).when(b.renew()).then(Code.STALE_TOKEN)


# Complete


def test_a_completion_keeps_the_result():
    """Complete: succeeded, with an end time and the result; attempts and token stay."""
    job = given(*RUNNING).when(b.complete()).then(b.completed())
    assert (job.state, job.attempts, job.lease_token, job.lease) == (State.SUCCEEDED, 1, 1, None)
    assert job.result.size == len(b.RESULT.text) and job.finished_at == b.NOW


def test_a_null_result_is_no_content():
    """A result of JSON null is not written."""
    assert given(*RUNNING).when(b.complete(result=None)).then(b.completed(result=None)).result is None


def test_a_completion_after_the_expiry_counts_while_nobody_took_the_job():
    """Expired but not yet in the log: nobody else can have the job."""
    given(*LAPSED).when(b.complete()).then(b.completed())


def test_a_completion_after_the_recorded_expiry_is_stale():
    """Once the expiry is in the log the token is over, though it is still the newest one."""
    given(*RUNNING, b.expired()).when(b.complete()).then(Code.STALE_TOKEN)


def test_the_former_workers_completion_is_stale():
    """A slow worker cannot overwrite what the next one does."""
    given(*AGAIN).when(b.complete(token=1)).then(Code.STALE_TOKEN)
    given(*AGAIN, b.completed(token=2, attempt=2)).when(b.complete(token=1)).then(Code.STALE_TOKEN)


def test_a_repeated_completion_changes_nothing_whatever_it_brings():
    """The first result stands."""
    given(*RUNNING, b.completed()).when(b.complete(result=b.content("2"))).then(UNCHANGED)


# Fail


def test_a_failure_waits_for_its_retry():
    """Fail with attempts left: failed, due after the policy's delay, error kept."""
    job = given(*RUNNING).when(b.fail()).then(b.failed(run_at=b.at(11)))
    assert (job.state, job.attempts, job.lease_token, job.lease) == (State.FAILED, 1, 1, None)
    assert job.error.size == len(b.ERROR.text) and job.finished_at is None


@pytest.mark.parametrize(
    ("policy", "roll", "delay"),
    [
        (Exponential(base=8, max_delay=300, jitter=0.5), 0.0, 16),
        (Exponential(base=8, max_delay=300, jitter=0.5), 0.5, 12),
        (Exponential(base=8, max_delay=10, jitter=0), 0.9, 10),
        (Linear(base=7, max_delay=300), 0.9, 14),
        (Linear(base=7, max_delay=10), 0.9, 10),
        (Constant(base=3.25), 0.9, 3.25),
    ],
    ids=str,
)
def test_the_second_attempts_delay_is_the_policys(policy, roll, delay):
    """The policy is asked for the attempt that failed, with the roll the command brings."""
    past = given(b.enqueued(retry_policy=policy), *AGAIN[1:])
    past.when(b.fail(token=2, roll=roll)).then(b.failed(token=2, attempt=2, run_at=b.at(10 + delay)))


def test_the_worker_may_ask_for_a_delay():
    """The worker's delay goes before the policy's, zero too."""
    given(*RUNNING).when(b.fail(delay=b.seconds(90))).then(b.failed(run_at=b.at(100)))
    given(*RUNNING).when(b.fail(delay=0)).then(b.failed(run_at=b.NOW))


def test_the_last_failure_is_a_death():
    """No attempts left: dead, whatever delay was asked for."""
    past = given(b.enqueued(max_attempts=2), *AGAIN[1:])
    job = past.when(b.fail(token=2, delay=0)).then(b.died(token=2, attempt=2))
    assert (job.state, job.death_cause, job.finished_at) == (State.DEAD, DeathCause.ATTEMPTS_EXHAUSTED, b.NOW)
    assert job.error is not None


def test_a_failure_not_worth_retrying_is_a_death():
    """retry=false: dead at once; that goes before exhaustion when both hold."""
    expected = b.died(cause=DeathCause.NOT_RETRYABLE)
    given(*RUNNING).when(b.fail(retry=False)).then(expected)
    given(b.enqueued(max_attempts=1), b.leased()).when(b.fail(retry=False)).then(expected)


def test_a_failure_after_the_expiry_counts_while_nobody_took_the_job():
    """Expired but not yet in the log."""
    given(*LAPSED).when(b.fail()).then(b.failed())


def test_a_repeated_failure_changes_nothing_whatever_it_brings():
    """The failure of this token is the last thing recorded: failed, or dead by it."""
    other = b.fail(error=b.content('{"type": "Other", "message": ""}'), retry=False)
    given(*RUNNING, b.failed()).when(other).then(UNCHANGED)
    given(*RUNNING, b.died()).when(other).then(UNCHANGED)
    given(*RUNNING, b.died(cause=DeathCause.NOT_RETRYABLE)).when(other).then(UNCHANGED)


def test_a_failure_is_stale_once_something_else_was_recorded():
    """Next lease, cancel, requeue or expiry after it: the failure is no longer the last thing."""
    for later in ([b.leased(token=2, attempt=2)], [b.canceled()], [b.died(), b.requeued()]):
        given(*RUNNING, b.failed(), *later).when(b.fail()).then(Code.STALE_TOKEN)
    given(*RUNNING, b.expired()).when(b.fail()).then(Code.STALE_TOKEN)
    given(*RUNNING, b.died(cause=DeathCause.LEASE_EXPIRED, error=None)).when(b.fail()).then(Code.STALE_TOKEN)


# Release


def test_a_release_does_not_count_the_attempt():
    """Release: queued, due at once, the attempt given back; the token stays."""
    job = given(*AGAIN).when(b.release(token=2)).then(b.released(token=2))
    assert (job.state, job.attempts, job.lease_token, job.run_at) == (State.QUEUED, 1, 2, b.NOW)
    assert job.error is not None, "the last error stays in sight"


def test_a_repeated_release_is_stale():
    """Its lease is over, and another may follow."""
    given(*RUNNING, b.released()).when(b.release()).then(Code.STALE_TOKEN)


# Expire


def test_an_expiry_counts_the_attempt():
    """Expire with attempts left: queued, due at once, with the lapse as its last error."""
    job = given(b.enqueued(), b.leased(expires_at=b.NOW)).when(b.expire()).then(b.expired())
    assert (job.state, job.attempts, job.lease_token, job.run_at) == (State.QUEUED, 1, 1, b.NOW)
    assert job.lapse == Lapse(b.WORKER, b.NOW) and job.lease is None


def test_an_expiry_waits_for_its_time():
    """now >= expiry or nothing."""
    given(b.enqueued(), b.leased(expires_at=b.NOW + 1)).when(b.expire()).then(Code.NOT_EXPIRED)


def test_an_expiry_replaces_the_last_error():
    """The last thing that went wrong is the lapse, not the failure before it."""
    past = given(*AGAIN)
    job = past.when(b.expire(now=b.at(30))).then(b.expired(token=2, attempt=2, run_at=b.at(30)))
    assert job.error is None and job.lapse == Lapse(b.WORKER, b.at(30))


def test_the_last_expiry_is_a_death_with_its_cause():
    """No attempts left: one job_died with cause lease_expired, and no error content."""
    past = given(b.enqueued(max_attempts=1), b.leased(expires_at=b.at(9)))
    job = past.when(b.expire()).then(b.died(cause=DeathCause.LEASE_EXPIRED, error=None))
    assert (job.state, job.death_cause, job.error) == (State.DEAD, DeathCause.LEASE_EXPIRED, None)
    assert job.lapse == Lapse(b.WORKER, b.at(9)) and job.finished_at == b.NOW


# Cancel and requeue


@pytest.mark.parametrize("past", [[b.enqueued()], RUNNING, [*RUNNING, b.failed()]], ids=["queued", "running", "failed"])
def test_a_cancel_ends_the_job(past):
    """Queued, running or failed: canceled, with reason and end time, the lease over."""
    job = given(*past).when(b.cancel(reason="no need")).then(b.canceled(reason="no need"))
    assert (job.state, job.finished_at, job.lease) == (State.CANCELED, b.NOW, None)


def test_a_repeated_cancel_changes_nothing():
    """The first reason stands."""
    given(b.enqueued(), b.canceled(reason="a")).when(b.cancel(reason="b")).then(UNCHANGED)


def test_a_requeue_starts_afresh_and_keeps_what_happened():
    """Requeue: queued, no attempts, due at once, no end time; token and last error stay."""
    job = given(*AGAIN, b.died(token=2, attempt=2)).when(b.requeue()).then(b.requeued())
    assert (job.state, job.attempts, job.lease_token, job.run_at) == (State.QUEUED, 0, 2, b.NOW)
    assert job.finished_at is None and job.death_cause is None and job.error is not None


def test_a_repeated_requeue_is_refused():
    """The job is not dead any more."""
    given(*RUNNING, b.died(), b.requeued()).when(b.requeue()).then(Code.ILLEGAL_TRANSITION)
