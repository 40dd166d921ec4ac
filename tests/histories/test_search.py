"""The search finds an order exactly where trying every order finds one."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from eventjobs.testing.histories import Answer, Ask, Lost, Operation, Refusal, search
from eventjobs.testing.histories.standing import NEVER, Standing, seen
from eventjobs.testing.histories.table import Moment, expiries, outcomes

JOB = {"kind": "k", "max_attempts": 2, "retry_policy": {"type": "constant", "base": 0}}
SECOND = 1_000_000

asks = st.one_of(
    st.builds(Ask, name=st.sampled_from(["get", "cancel", "requeue"])),
    st.builds(Ask, name=st.sampled_from(["complete", "fail", "release"]), token=st.integers(1, 3), error=st.just("e")),
    st.builds(Ask, name=st.just("renew"), token=st.integers(1, 3), seconds=st.integers(1, 4)),
    st.builds(Ask, name=st.just("lease"), worker=st.just("w"), seconds=st.integers(1, 4)),
    st.builds(Ask, name=st.just("lease"), worker=st.just("w"), seconds=st.integers(1, 4)),
)
plans = st.lists(
    st.fixed_dictionaries(
        {
            "ask": asks,
            "at": st.integers(2, 12),
            "before": st.integers(0, 4),
            "after": st.integers(0, 4),
            "lost": st.sampled_from([False, False, False, True]),
            "expire": st.booleans(),
            "shows_time": st.booleans(),
        }
    ),
    max_size=6,
)
lies = st.none() | st.tuples(
    st.integers(0, 6), st.sampled_from([{"state": "queued"}, {"state": "running"}, {"lease_token": 2}, {"attempts": 2}])
)


def played(plan: list[dict[str, Any]], lie: tuple[int, dict[str, Any]] | None) -> list[Operation]:
    """A history that came about one operation after another, with one answer changed if there is a lie."""
    created = (SECOND, SECOND)
    standing = Standing(0, JOB["max_attempts"], created, created, created, at_once=True)
    document = {"state": "queued", "updated_at": SECOND}
    history = [Operation("c", Ask(name="enqueue", job=JOB), 0, 2 * SECOND, Answer(document, True))]
    for step in sorted(plan, key=lambda step: step["at"]):
        at = step["at"] * SECOND
        if step["expire"]:
            standing = next(expiries(standing, at), standing)
        now = (at, at)
        *_, after = outcomes(standing, step["ask"], Moment(now, now), [JOB])
        changed = isinstance(after, Standing) and after != standing
        outcome = Refusal(after) if isinstance(after, str) else Answer(shown(after, changed and step["shows_time"]))
        standing = standing if isinstance(after, str) else after
        called, returned = at - step["before"] * SECOND, at + step["after"] * SECOND
        history.append(Operation("c", step["ask"], called, returned, Lost("drawn") if step["lost"] else outcome))
    if lie is not None and lie[0] < len(history):
        told = history[lie[0]]
        document = {**told.outcome.document, **lie[1]} if isinstance(told.outcome, Answer) else lie[1]
        history[lie[0]] = Operation("c", told.ask, told.called, told.returned, Answer(document))
    return history


def shown(standing: Standing, with_time: bool) -> dict[str, Any]:
    """A part of a document."""
    document = {"state": standing.state, "attempts": standing.attempts, "lease_token": standing.token}
    return {**document, "updated_at": standing.updated[1]} if with_time else document


def has_order(standing: Standing | None, left: list[Operation]) -> bool:
    """Whether the operations can be put in order, trying everything."""
    answered = [each for each in left if each.answered]
    if not answered:
        return True
    limit = min(each.returned for each in answered)
    if any(has_order(after, left) for after in expiries(standing, limit)):
        return True
    for operation in left:
        if operation.called <= limit:
            rest = [each for each in left if each is not operation]
            if any(has_order(after, rest) for after in followers(standing, operation, limit)):
                return True
    return False


def followers(standing: Standing | None, operation: Operation, limit: int) -> list[Standing | None]:
    """What the job can be after the operation."""
    now = (operation.called, operation.returned if operation.answered else limit)
    document = operation.outcome.document if isinstance(operation.outcome, Answer) else {}
    time = document.get("updated_at", None)
    event_time = now if time is None else (time, time) if now[0] <= time <= now[1] else (NEVER, 0)
    found = []
    for outcome in outcomes(standing, operation.ask, Moment(now, event_time), [JOB]):
        match operation.outcome:
            case Refusal(code) if outcome == code:
                found.append(standing)
            case Lost() if isinstance(outcome, Standing):
                found.append(outcome)
            case Answer(document) if isinstance(outcome, Standing):
                after = seen(outcome, document, JOB)
                found += [after] if isinstance(after, Standing) else []
    return found


@given(plans, lies)
def test_it_agrees_with_trying_every_order(plan, lie):
    """With overlapping operations, lost answers, leases that run out, and a lie now and then."""
    history = played(plan, lie)
    legal = search(history).legal
    event(f"legal: {legal}")
    assert legal is has_order(None, history)
    assert legal or lie is not None
