"""The lifecycle's table once more, for a judge who sees a job from outside.

Written from `specs/lifecycle.md` and from nothing else: it shares no code with the rules it is held against.
`outcomes` says everything that an operation may come to; it is more than one thing where times are only known
within bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from eventjobs.testing.histories.operations import NOT_OFFERED, Ask
from eventjobs.testing.histories.standing import Span, Standing, text_of

STALE, EXPIRED, ILLEGAL = "stale_token", "lease_expired", "illegal_transition"
NOT_FOUND, REUSED = "job_not_found", "idempotency_key_reused"

MAX_ATTEMPTS = 5
DEFAULT_POLICY = {"type": "exponential"}
POLICIES = {
    "exponential": {"base": 1, "max_delay": 300, "jitter": 0.5},
    "linear": {"base": 1, "max_delay": 300, "jitter": 0},
    "constant": {"base": 1, "jitter": 0},
}

Outcome = Standing | str
"""How the job stands afterwards, or the code of a refusal."""


@frozen
class Moment:
    """When an operation is decided: `now` is what the request's call and return allow, `event` what its answer says
    of the time of its event, empty (first > last) when the two cannot be brought together."""

    now: Span
    event: Span


def outcomes(standing: Standing | None, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    """Everything the operation may come to. `jobs` are the enqueue requests of the history; None stands for no job.

    An operation that changes nothing and is answered as done leaves the very standing it found.
    """
    if ask.name == "enqueue":
        yield from _enqueue(standing, ask, moment, jobs)
    elif standing is None:
        yield NOT_OFFERED if ask.name == "lease" else NOT_FOUND
    elif ask.name == "get":
        yield standing
    elif ask.name == "lease":
        yield from _lease(standing, ask, moment)
    else:
        yield from _RULES[ask.name](standing, ask, moment, jobs)


def expiries(standing: Standing | None, until: int) -> Iterator[Standing]:
    """The job after the rescuer ended its lease, at a time not after `until`; nothing when it cannot have done so."""
    if standing is None or standing.state != "running":
        return
    time = _common((standing.expiry[0], until), (standing.updated[0], until))
    if time is None:
        return
    error = ("lease_expired", None)
    if standing.attempts < standing.max_attempts:
        yield _waiting(standing, time, "queued", time, error=error, at_once=True)
    else:
        yield _ended(standing, time, "dead", error=error)


def _enqueue(standing: Standing | None, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    number = jobs.index(ask.job)
    if standing is not None:
        yield standing if standing.job == number else REUSED
        return
    time = moment.event
    if time[0] > time[1]:
        return
    delay = ask.job.get("delay_seconds")
    run_at = _shifted(time, delay or 0)
    yield Standing(number, ask.job.get("max_attempts", MAX_ATTEMPTS), time, time, run_at, at_once=not delay)


def _lease(standing: Standing, ask: Ask, moment: Moment) -> Iterator[Outcome]:
    request = None if ask.request_id is None else (ask.worker, ask.request_id)
    if request is not None and request in standing.remembered:
        yield standing if standing.grant == request else NOT_OFFERED
        return
    if standing.state not in ("queued", "failed"):
        yield NOT_OFFERED
        return
    time = _common(_since(standing, moment), (standing.run_at[0], moment.event[1]))
    if time is not None:
        yield standing._replace(
            state="running",
            attempts=standing.attempts + 1,
            token=standing.token + 1,
            owner=ask.worker,
            expiry=_shifted(time, ask.seconds),
            lease_seconds=ask.seconds,
            grant=request,
            run_at=(standing.run_at[0], min(standing.run_at[1], time[1])),
            updated=time,
            failed=False,
            at_once=False,
            remembered=standing.remembered if request is None else standing.remembered | {request},
        )
    earliest = max(moment.now[0], standing.updated[0])  # no decision is older than what it is about
    if earliest < standing.run_at[1] and not standing.at_once:
        yield NOT_OFFERED


def _renew(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if not _holds(standing, ask):
        yield STALE
        return
    expiry = standing.expiry
    time = _common(_since(standing, moment), (moment.event[0], expiry[1] - 1))
    if time is not None:
        moved = _shifted(time, standing.lease_seconds if ask.seconds is None else ask.seconds)
        later = (max(expiry[0], moved[0]), max(expiry[1], moved[1]))
        yield standing._replace(expiry=later, updated=time)
    if moment.now[1] >= expiry[0]:
        yield EXPIRED


def _complete(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if standing.state == "succeeded" and standing.token == ask.token:
        yield standing
    elif not _holds(standing, ask):
        yield STALE
    elif (time := _since(standing, moment)) is not None:
        yield _ended(standing, time, "succeeded", result=text_of(ask.result))


def _fail(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if standing.failed and standing.token == ask.token:
        yield standing
    elif not _holds(standing, ask):
        yield STALE
    elif (time := _since(standing, moment)) is not None:
        error = ("Error", ask.error)
        if not ask.retry or standing.attempts >= standing.max_attempts:
            yield _ended(standing, time, "dead", error=error, failed=True)
            return
        least, most = _delays(standing, ask, jobs)
        run_at = (_shifted(time, least)[0], _shifted(time, most)[1])
        yield _waiting(standing, time, "failed", run_at, error=error, failed=True)


def _release(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if not _holds(standing, ask):
        yield STALE
    elif (time := _since(standing, moment)) is not None:
        yield _waiting(standing, time, "queued", time, attempts=standing.attempts - 1, at_once=True)


def _cancel(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if standing.state == "canceled":
        yield standing
    elif standing.state in ("succeeded", "dead"):
        yield ILLEGAL
    elif (time := _since(standing, moment)) is not None:
        yield _ended(standing, time, "canceled")


def _requeue(standing: Standing, ask: Ask, moment: Moment, jobs: list[dict[str, Any]]) -> Iterator[Outcome]:
    if standing.state != "dead":
        yield ILLEGAL
    elif (time := _since(standing, moment)) is not None:
        yield _waiting(standing, time, "queued", time, attempts=0, finished=None, at_once=True)


_RULES: dict[str, Callable[..., Iterator[Outcome]]] = {
    "renew": _renew,
    "complete": _complete,
    "fail": _fail,
    "release": _release,
    "cancel": _cancel,
    "requeue": _requeue,
}


def _holds(standing: Standing, ask: Ask) -> bool:
    return standing.state == "running" and standing.token == ask.token


def _since(standing: Standing, moment: Moment) -> Span | None:
    """The times the event may have: not before the job's last change."""
    return _common(moment.event, (standing.updated[0], moment.event[1]))


def _waiting(standing: Standing, time: Span, state: str, run_at: Span, **more: Any) -> Standing:
    return _after(standing, time, {"state": state, "run_at": run_at, **more})


def _ended(standing: Standing, time: Span, state: str, **more: Any) -> Standing:
    return _after(standing, time, {"state": state, "finished": time, **more})


def _after(standing: Standing, time: Span, changes: dict[str, Any]) -> Standing:
    """The job with its lease, if it had one, over."""
    over = {"owner": None, "expiry": None, "lease_seconds": None, "grant": None, "failed": False, "at_once": False}
    return standing._replace(**over | {"updated": time} | changes)


def _delays(standing: Standing, ask: Ask, jobs: list[dict[str, Any]]) -> tuple[float, float]:
    """The shortest and the longest wait after this failure, in seconds."""
    if ask.delay_seconds is not None:
        return ask.delay_seconds, ask.delay_seconds
    policy = jobs[standing.job].get("retry_policy", DEFAULT_POLICY)
    policy = POLICIES[policy["type"]] | policy
    match policy["type"]:
        case "exponential":
            longest = min(policy["max_delay"], policy["base"] * 2 ** (standing.attempts - 1))
        case "linear":
            longest = min(policy["max_delay"], policy["base"] * standing.attempts)
        case "constant":
            longest = policy["base"]
    return longest * (1 - policy["jitter"]), longest


def _shifted(time: Span, seconds: float) -> Span:
    """The times so much later, to the whole microsecond either way."""
    microseconds = seconds * 1_000_000
    whole = round(microseconds)
    if abs(microseconds - whole) < 1e-3:
        return time[0] + whole, time[1] + whole
    return time[0] + math.floor(microseconds), time[1] + math.ceil(microseconds)


def _common(one: Span | None, other: Span) -> Span | None:
    """The times in both spans; None when there are none."""
    if one is None:
        return None
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return (first, last) if first <= last else None
