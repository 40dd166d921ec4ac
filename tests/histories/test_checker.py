"""The checker itself: what can have been true is taken, what cannot is refused, and told shortly."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import eventjobs.testing.histories
from eventjobs.testing.histories import IllegalHistory, Undecided, check, search

LEGAL = {
    "a job is done": lambda s: (
        s.enqueued().leased(2, 1, attempts=1).ok("complete", 4, 5, token=1, result=7, state="succeeded", shown_result=7)
    ),
    "reads beside a completion see it or not": lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 8, token=1, at=6, state="succeeded")
        .ok("get", 5, 7, state="running").ok("get", 5, 7, state="succeeded").ok("get", 9, 10, state="succeeded")
    ),
    "a completion is repeated with another result": lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 5, token=1, result=1, state="succeeded")
        .ok("complete", 6, 7, token=1, result=2, state="succeeded", shown_result=1, at=4.5)
    ),
    "a completion after the time ran out, before anybody took the job": lambda s: (
        s.enqueued().leased(2, 1, seconds=1).no("renew", 5, 6, "lease_expired", token=1)
        .ok("complete", 7, 8, token=1, state="succeeded")
    ),
    "a lease runs out, and the job is given again": lambda s: (
        s.enqueued().leased(2, 1, seconds=1).leased(5, 2, attempts=2, run_at=3.6)
        .no("complete", 7, 8, "stale_token", token=1).ok("complete", 9, 10, token=2, state="succeeded")
    ),
    "a lost completion had its effect": lambda s: (
        s.enqueued().leased(2, 1).lost("complete", 4, 5, token=1, result=3)
        .ok("get", 8, 9, state="succeeded", shown_result=3)
    ),
    "a lost completion had its effect late": lambda s: (
        s.enqueued().leased(2, 1).lost("complete", 4, 5, token=1, result=3).ok("get", 6, 7, state="running")
        .ok("get", 8, 9, state="succeeded", shown_result=3)
    ),
    "a lost completion never had an effect": lambda s: (
        s.enqueued().leased(2, 1, seconds=5).lost("complete", 4, 5, token=1).leased(10, 2)
    ),
    "a lost enqueue, and the job is there": lambda s: (
        s.lost("enqueue", 0, 1).ok("enqueue", 2, 3, created=False, state="queued").leased(4, 1)
    ),
    "a lost lease is given again": lambda s: (
        s.enqueued().lost("lease", 2, 3, worker="w1", seconds=10, request_id="r")
        .ok("lease", 4, 5, worker="w1", seconds=10, request_id="r", state="running", lease_token=1, at=2.5)
    ),
    "a lost lease is not given again once it is over": lambda s: (
        s.enqueued().lost("lease", 2, 3, worker="w1", seconds=1, request_id="r").ok("get", 3, 4, state="running")
        .no("lease", 6, 7, "not_offered", worker="w1", seconds=1, request_id="r").leased(8, 2)
    ),
    "a failure waits for its retry": lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="failed", run_at=9.5)
        .no("lease", 6, 7, "not_offered", worker="w2", seconds=1).leased(9.1, 2, attempts=2)
    ),
    "a failure is repeated": lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="failed")
        .ok("fail", 6, 7, token=1, error="other", state="failed", at=4.5)
    ),
    "the last failure kills, and a requeue gives all attempts anew": lambda s: (
        s.enqueued(max_attempts=1).leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="dead")
        .ok("requeue", 6, 7, state="queued", attempts=0, lease_token=1).leased(8, 2, attempts=1)
    ),
    "the last expiry kills": lambda s: (
        s.enqueued(max_attempts=1).leased(2, 1, seconds=1).ok("get", 4, 5, state="dead", at=3.6, attempts=1)
        .no("fail", 6, 7, "stale_token", token=1)
    ),
    "a release gives the attempt back": lambda s: (
        s.enqueued().leased(2, 1, attempts=1).ok("release", 4, 5, token=1, state="queued", attempts=0)
        .no("release", 6, 7, "stale_token", token=1).leased(8, 2, attempts=1)
    ),
    "a renewal moves the expiry, and never backwards": lambda s: (
        s.enqueued().leased(2, 1, seconds=10).ok("renew", 4, 5, token=1, seconds=1, expires_at=12.5)
        .ok("renew", 6, 7, token=1, expires_at=16.5).ok("complete", 15, 16, token=1, state="succeeded")
    ),
    "a cancel ends a lease": lambda s: (
        s.enqueued().leased(2, 1).ok("cancel", 4, 5, state="canceled").no("renew", 6, 7, "stale_token", token=1)
        .ok("cancel", 8, 9, state="canceled", at=4.5)
    ),
    "two who race for the end": lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 6, token=1, state="succeeded", at=5.1)
        .no("cancel", 4, 6, "illegal_transition")
    ),
    "the key is used for another request": lambda s: (
        s.enqueued().no("enqueue", 2, 3, "idempotency_key_reused", job={"kind": "other"})
    ),
    "nobody has enqueued it yet": lambda s: (
        s.no("get", 0, 1, "job_not_found").no("cancel", 0, 1, "job_not_found").ok("enqueue", 0, 2, created=True)
    ),
    "jitter draws the wait from its bounds": lambda s: (
        s.enqueued(retry_policy={"type": "exponential", "base": 4}).leased(2, 1)
        .ok("fail", 4, 5, token=1, error="e", state="failed", run_at=6.9)
    ),
    "answers that show a part": lambda s: (
        s.enqueued().leased(2, 1).ok("renew", 4, 5, token=1, seconds=20, expires_at=24.7, at=4.7, state="running")
        .ok("complete", 6, 7, token=1, state="succeeded", lease_token=1)
    ),
}  # fmt: skip

ILLEGAL = {
    "two leases with the same token": ("lease_token is 2 and is shown as 1", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).leased(6, 1)
    )),
    "two live leases": ("not_offered", lambda s: (
        s.enqueued().leased(2, 1, seconds=100).leased(6, 2)
    )),
    "a token is left out": ("lease_token is 1 and is shown as 2", lambda s: (
        s.enqueued().leased(2, 2)
    )),
    "a token is reset by a requeue": ("lease_token is 2 and is shown as 1", lambda s: (
        s.enqueued(max_attempts=1).leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="dead")
        .ok("requeue", 6, 7, state="queued").leased(8, 1)
    )),
    "an acknowledged enqueue is lost": ("job_not_found: it must be done", lambda s: (
        s.enqueued().no("get", 2, 3, "job_not_found")
    )),
    "an acknowledged completion is lost": ("not_offered", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).ok("complete", 4, 5, token=1, state="succeeded").leased(6, 2)
    )),
    "a result is changed by a late completion": ("result is 1 and is shown as 2", lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 5, token=1, result=1, state="succeeded")
        .ok("complete", 6, 7, token=1, result=2, state="succeeded", at=4.5, shown_result=2)
    )),
    "a stale completion is taken": ("stale_token", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).leased(5, 2).ok("complete", 7, 8, token=1, state="succeeded")
    )),
    "a stale failure is taken": ("stale_token", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).leased(5, 2).ok("fail", 7, 8, token=1, error="e", state="dead")
    )),
    "a stale completion is taken beside the lost one of the holder": ("stale_token", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).leased(5, 2).lost("complete", 6, 7, token=2, result=2)
        .ok("complete", 7, 8, token=1, result=1, state="succeeded", shown_result=1)
    )),
    "a token that was never given is taken": ("stale_token", lambda s: (
        s.enqueued().leased(2, 1).ok("release", 4, 5, token=2, state="queued")
    )),
    "a renewal is taken after the expiry": ("it is lease_expired; it is stale_token", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).ok("renew", 5, 6, token=1, seconds=1, state="running")
    )),
    "a renewal is refused as too late in time": ("lease_expired: it must be done", lambda s: (
        s.enqueued().leased(2, 1, seconds=100).no("renew", 5, 6, "lease_expired", token=1)
    )),
    "a renewal takes time away": ("lease_expires_at is 12500000 and is shown as 5500000", lambda s: (
        s.enqueued().leased(2, 1, seconds=10).ok("renew", 4, 5, token=1, seconds=1, expires_at=5.5)
    )),
    "the holder is refused in time": ("stale_token: it must be done", lambda s: (
        s.enqueued().leased(2, 1, seconds=100).no("complete", 4, 5, "stale_token", token=1)
    )),
    "the job is taken away before the expiry": ("state is 'running' and is shown as 'queued'", lambda s: (
        s.enqueued().leased(2, 1, seconds=10).ok("get", 6, 7, state="queued", at=6.5)
    )),
    "the job is given again before the expiry": ("and is shown as 12400000", lambda s: (
        s.enqueued().leased(2, 1, seconds=10).leased(13, 2, run_at=12.4)
    )),
    "an attempt is not counted at an expiry": ("attempts is 2 and is shown as 1", lambda s: (
        s.enqueued().leased(2, 1, seconds=1, attempts=1).leased(5, 2, attempts=1)
    )),
    "a released attempt is counted": ("attempts is 1 and is shown as 2", lambda s: (
        s.enqueued().leased(2, 1).ok("release", 4, 5, token=1, state="queued").leased(6, 2, attempts=2)
    )),
    "one attempt too many": ("not_offered", lambda s: (
        s.enqueued(max_attempts=1).leased(2, 1, seconds=1).leased(5, 2)
    )),
    "a state that nobody can have caused": ("state is 'queued' and is shown as 'canceled'", lambda s: (
        s.enqueued().ok("get", 2, 3, state="canceled")
    )),
    "a state that only a refused request can have caused": ("illegal_transition: it must be done", lambda s: (
        s.enqueued().no("cancel", 2, 3, "illegal_transition").ok("get", 4, 5, state="canceled")
    )),
    "a read goes back in time": ("state is 'running' and is shown as 'queued'", lambda s: (
        s.enqueued().ok("lease", 2, 9, worker="w1", seconds=100, at=3, state="running", lease_token=1)
        .ok("get", 4, 5, state="running").ok("get", 6, 7, state="queued")
    )),
    "two reads see two endings": ("state is 'succeeded' and is shown as 'canceled'", lambda s: (
        s.enqueued().leased(2, 1).lost("complete", 4, 5, token=1).lost("cancel", 4, 5)
        .ok("get", 6, 7, state="succeeded").ok("get", 8, 9, state="canceled")
    )),
    "a lease before the job is due": ("not_offered", lambda s: (
        s.enqueued(delay_seconds=10).leased(2, 1)
    )),
    "a lease before the retry is due": ("not_offered", lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="failed").leased(6, 2)
    )),
    "a due job is not offered": ("not_offered: it must be done", lambda s: (
        s.enqueued().no("lease", 2, 3, "not_offered", worker="w", seconds=1)
    )),
    "success twice": ("stale_token", lambda s: (
        s.enqueued().leased(2, 1, seconds=1).ok("complete", 4, 5, token=1, state="succeeded")
        .ok("complete", 6, 7, token=2, state="succeeded")
    )),
    "success a second time at another time": ("updated_at is 4500000 and is shown as 6500000", lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 5, token=1, state="succeeded", at=4.5)
        .ok("complete", 6, 7, token=1, state="succeeded", at=6.5)
    )),
    "a live job is requeued": ("illegal_transition", lambda s: (
        s.enqueued().leased(2, 1, seconds=100).ok("requeue", 4, 5, state="queued")
    )),
    "a finished job is canceled": ("illegal_transition", lambda s: (
        s.enqueued().leased(2, 1).ok("complete", 4, 5, token=1, state="succeeded").ok("cancel", 6, 7, state="canceled")
    )),
    "one key makes two jobs": ("the job is there", lambda s: (
        s.enqueued().ok("enqueue", 2, 3, created=True, state="queued")
    )),
    "one key shows two jobs": ("the job is one and is shown as two", lambda s: (
        s.enqueued().ok("get", 2, 3, id="one", state="queued").ok("get", 4, 5, id="two", state="queued")
    )),
    "the key is taken for another request": ("idempotency_key_reused", lambda s: (
        s.enqueued().ok("enqueue", 2, 3, created=False, job={"kind": "other"}, state="queued")
    )),
    "another's payload is shown": ("payload was sent as 1 and is shown as 2", lambda s: (
        s.enqueued(payload=1).ok("get", 2, 3, payload=2)
    )),
    "a repeated lease is given anew": ("lease_token is 1 and is shown as 2", lambda s: (
        s.enqueued().leased(2, 1, seconds=1, worker="w", request_id="r").leased(6, 2, worker="w", request_id="r")
    )),
    "a repeated failure counts twice": ("state is 'failed' and is shown as 'dead'", lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="e", state="failed")
        .ok("fail", 6, 7, token=1, error="e", state="dead")
    )),
    "the wait is shorter than the policy's": ("between 6500000 and 8500000 and is shown as 6400000", lambda s: (
        s.enqueued(retry_policy={"type": "exponential", "base": 4}).leased(2, 1)
        .ok("fail", 4, 5, token=1, error="e", state="failed", run_at=6.4)
    )),
    "the wait is not what the worker asked for": ("run_at is 5500000 and is shown as 9500000", lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="e", delay_seconds=1, state="failed", run_at=9.5)
    )),
    "an event is older than its request": ("its time does not fit", lambda s: (
        s.enqueued().leased(2, 1).ok("cancel", 4, 5, state="canceled", at=3)
    )),
    "an event is older than the one before": ("its time does not fit", lambda s: (
        s.enqueued().ok("lease", 2, 9, worker="w1", seconds=100, at=8, state="running", lease_token=1)
        .ok("complete", 2, 9, token=1, at=7, state="succeeded")
    )),
    "another error is shown": ("error is Error: mine and is shown as Error: other", lambda s: (
        s.enqueued().leased(2, 1).ok("fail", 4, 5, token=1, error="mine", state="failed")
        .ok("get", 6, 7, shown_error={"type": "Error", "message": "other"})
    )),
    "an expiry leaves no error": ("error is lease_expired: None and is shown as Error: e", lambda s: (
        s.enqueued().leased(2, 1, seconds=1)
        .ok("get", 6, 7, state="queued", shown_error={"type": "Error", "message": "e"})
    )),
    "an end has a time and the job goes on": ("finished_at is nothing and is shown as 3", lambda s: (
        s.enqueued().ok("get", 6, 7, finished_at=3)
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_what_can_have_been_is_taken(name, story):
    """A history with a legal order has one that holds each answered operation exactly once."""
    written = LEGAL[name](story())
    finding = check(written.history())
    put_in = [step.operation for step in finding.order if step.operation is not None]
    assert len(put_in) == len(set(put_in))
    assert {each for each in written.operations if each.answered} <= set(put_in)


@pytest.mark.parametrize("name", ILLEGAL)
def test_what_cannot_have_been_is_refused(name, story):
    """A history without a legal order is refused, for the right reason."""
    reason, write = ILLEGAL[name]
    with pytest.raises(IllegalHistory) as refused:
        check(write(story()).history())
    _, _, told = str(refused.value).partition("None of these can be the next")
    assert reason in told


def test_what_is_told_is_short(story):
    """Of a long history only what cannot be brought into an order is told, and of that the end."""
    long = story().enqueued()
    for token in range(1, 20):
        start = 10 * token
        long.leased(start, token, seconds=100).no("complete", start + 2, start + 3, "stale_token", token=token + 1)
        long.ok("get", start + 3, start + 4, state="running").ok("release", start + 5, start + 6, token=token)
    long.ok("get", 300, 301, state="succeeded").leased(310, 20)
    with pytest.raises(IllegalHistory) as refused:
        check(long.history())
    text, _, order = str(refused.value).partition("The longest legal order of these has 39 steps")
    told = text.splitlines()[1:]
    assert told[0].startswith("These 40 of its 79 operations have none"), "enqueue, leases, releases and one look"
    assert told[1] == "  ... 10 earlier ones"
    assert told[-1].endswith("get() -> succeeded")
    assert len(told) == 2 + 30
    assert len(order.splitlines()) == 1 + 12 + 2


def test_operations_that_overlap_are_decided_fast(story):
    """Many requests at once, many of them lost: what was looked at once is not looked at again."""
    crowded = story().enqueued()
    for number in range(30):
        crowded.lost("lease", 2, 50, worker=f"lost-{number}", seconds=5).lost("release", 2, 50, token=number)
        crowded.ok("get", 2, 60).no("complete", 2, 60, "stale_token", token=100 + number)
    crowded.ok("get", 70, 71, state="queued", lease_token=0)
    assert search(crowded.operations).nodes < 20_000


def test_a_search_has_an_end(story):
    """A search that takes too long says that it does not know, which is neither yes nor no."""
    with pytest.raises(Undecided):
        check(LEGAL["a lost completion had its effect late"](story()).history(), nodes_max=2)


def test_clocks_may_differ_a_little(story):
    """An event's time may lie outside its request by the tolerance, and by no more."""
    history = story().enqueued().leased(2, 1).ok("cancel", 4, 5, state="canceled", at=5.1).history()
    assert check(history, tolerance=100_000).legal
    with pytest.raises(IllegalHistory):
        check(history, tolerance=99_999)


def test_the_judge_knows_nothing_of_the_rules_it_judges():
    """No module of the histories imports anything of the product but its own neighbours."""
    folder = Path(eventjobs.testing.histories.__file__).parent
    for module in folder.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [name for name in names if name.partition(".")[0] == "eventjobs"]
            assert all(name.startswith("eventjobs.testing.histories.") for name in ours), module.name
