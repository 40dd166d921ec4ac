"""A job's history: all of it, and what each event means for a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen

from eventjobs.cli import documents, events, output
from eventjobs.cli.remote import Remote, job_path
from eventjobs.cli.stores import Database

Event = dict[str, Any]
ENDS_OF_RUNS = {"job_completed", "attempt_failed", "job_died", "lease_expired", "lease_released", "job_canceled"}


def history_command(job_id: str, place: Path | Database) -> str:
    """What tells a job's history from the log there, also when the job is not in the live store any more."""
    option = "--store" if isinstance(place, Database) else "--data"
    return f"eventjobs history {job_id} {option} {place}"


def history_texts(remote: Remote, job_id: str) -> list[bytes]:
    """The texts of a job's events, to the end however many answers it takes."""
    found: list[bytes] = []
    while True:
        page = msgspec.json.decode(
            remote.get(job_path(job_id, "events"), after=len(found)), type=dict[str, list[msgspec.Raw]]
        )["events"]
        if not page:
            return found
        found += map(bytes, page)


@frozen
class Told:
    """An event with what follows from those before it. Durations in seconds; None where there is none."""

    event: Event
    attempt: int | None
    token: int | None
    waited_seconds: float | None
    ran_seconds: float | None
    why: str

    def document(self) -> Event:
        """For scripts: the event, and beside it what was told."""
        facts = {"attempt": self.attempt, "token": self.token}
        return self.event | facts | {
            "waited_seconds": self.waited_seconds, "ran_seconds": self.ran_seconds, "why": self.why,
        }  # fmt: skip


def tell(history: Iterable[Event]) -> Iterator[Told]:
    """The events of one job, from its first, in order.

    A wait goes from the time a job could have been leased to the lease, a run from the lease to whatever ended it.
    """
    attempt = token = ready = leased = None
    most = 0
    for event in history:
        kind, data, now = event["type"], event["data"], output.moment(event["time"])
        waited = ran = None
        if kind == "job_enqueued":
            most = data["max_attempts"]
        elif kind == "job_requeued":
            attempt = None
        elif kind == "job_leased":
            attempt, token, leased = data["attempt"], data["token"], now
            waited = None if ready is None else (now - ready).total_seconds()
        elif kind in ENDS_OF_RUNS and leased is not None:
            ran, leased = (now - leased).total_seconds(), None
        if "run_at" in data:
            ready = max(now, output.moment(data["run_at"]))
        yield Told(event, attempt, token, waited, ran, _why(event, most))


def _why(event: Event, most: int) -> str:
    data = event["data"]
    match event["type"]:
        case "job_enqueued":
            later = data["run_at"] > event["time"]
            start = f", not before {output.clock(data['run_at'])}" if later else ""
            return f"{data['kind']} in queue {data['queue']}, at most {most} attempts{start}"
        case "job_leased":
            return f"attempt {data['attempt']} of {most}, held until {output.clock(data['expires_at'])}"
        case "lease_renewed":
            return f"held until {output.clock(data['expires_at'])}"
        case "lease_released":
            return "given back unharmed, the attempt does not count"
        case "lease_expired":
            return "the worker was not heard of before its lease ran out"
        case "job_completed":
            return "no result" if data["result"] is None else f"a result of {data['result']['size']:,} bytes"
        case "attempt_failed":
            size = data["error"]["size"]
            return f"the worker reported an error of {size:,} bytes; tried again from {output.clock(data['run_at'])}"
        case "job_died":
            return f"given up, {events.cause(data)}"
        case "job_canceled":
            return events.reason(data)
        case "job_requeued":
            return "a fresh set of attempts"
        case "contents_erased":
            return f"erased for good: {events.erased(data)}; {events.reason(data)}"
        case "job_retired":
            return f"left the live store by the rule: {data['rule']}; erased with it: {events.erased(data)}"
        case "idempotency_key_forgotten":
            return f"whoever enqueues under its key gets a new job, by the rule: {data['rule']}"
    return events.story(event).plain


def rows(history: Iterable[Event]) -> Iterator[tuple[object, ...]]:
    """A line for each event, under HEADINGS."""
    for told in tell(history):
        event = told.event
        yield (
            str(event["version"]),
            output.clock(event["time"]),
            events.name(event),
            events.actor(event),
            _number(told.attempt),
            _number(told.token),
            _duration(told.waited_seconds),
            _duration(told.ran_seconds),
            told.why,
        )


HEADINGS = ("#version", "time", "event", "by", "#attempt", "#token", "#waited", "#ran", "why")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else output.duration(seconds)


def parsed(texts: Iterable[bytes]) -> Iterator[Event]:
    """The events of their texts."""
    return map(documents.loads, texts)
