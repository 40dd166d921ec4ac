"""`eventjobs show`: a job, and everything that happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec
from rich.text import Text

from eventjobs.cli import documents, events, histories, options, output
from eventjobs.cli.columns import Row, print_columns
from eventjobs.cli.remote import Problem, Remote, job_path, with_remote
from eventjobs.cli.why import reason
from eventjobs.domain.job import State

ERROR_EVENTS = {"attempt_failed", "lease_expired", "job_died"}
"""What gives a job its error."""
CONTENT_LINES_MAX = 40
"""Lines of a payload, result or traceback that are shown; --json has everything."""


@click.command(short_help="Show a job and its history.")
@click.argument("job_id", metavar="ID")
@options.json_option
@with_remote
def show(job_id: str, as_json: bool, remote: Remote) -> None:
    """Show a job and its history: every event with its time, who made it happen, and what was decided.

    On a terminal, what goes beyond its width stands on lines below; elsewhere each event is one line.
    """
    job_text = remote.get(job_path(job_id))
    texts = histories.history_texts(remote, job_id)
    if as_json:
        output.print_json(b'{"job":' + job_text + b',"events":[' + b",".join(texts) + b"]}")
        return
    job = documents.loads(job_text)
    history = list(histories.parsed(texts))
    facts = _facts(job) | {"erased": _erased(history), "waiting": _waiting(job, remote)}
    console = output.console()
    console.print(Text.assemble((job["kind"], "bold"), f" {job['id']}  ", output.state(job["state"])), soft_wrap=True)
    print_columns(("", ""), [(Text(name, "dim"), value) for name, value in facts.items() if value])
    parts = msgspec.json.decode(job_text, type=dict[str, msgspec.Raw])
    for part in ("payload", "result", "error"):
        if job[part] is not None:
            console.print(f"\n[bold]{_last_error(history) if part == 'error' else part}[/]")
            text = _shortened(_readable(part, job[part], bytes(parts[part])))
            console.print(output.lines(text), soft_wrap=True)
    console.print("\n[bold]history[/]")
    print_columns(
        ("#version", "#position", "time", "#after", "event", "by  details"),
        _timeline(history),
    )


def _facts(job: dict[str, Any]) -> dict[str, str | None]:
    policy = job["retry_policy"]
    numbers = " ".join(f"{name}={value}" for name, value in policy.items() if name != "type")
    return {
        "queue": f"{job['queue']}, priority {job['priority']}",
        "attempts": f"{job['attempts']} of {job['max_attempts']}, retry {policy['type']} {numbers}",
        "run at": output.clock(job["run_at"]),
        "lease": f"{job['lease_owner']} until {output.clock(job['lease_expires_at'])}" if job["lease_owner"] else None,
        "token": str(job["lease_token"]),
        "key": job["idempotency_key"],
        "created": output.clock(job["created_at"]),
        "finished": output.clock(job["finished_at"]),
    }


def _erased(history: list[dict[str, Any]]) -> str:
    """Which contents are gone for good, by whom and when."""
    return "; ".join(
        f"{events.erased(event['data'])}, by {events.actor(event)} at {output.clock(event['time'])}: "
        f"{events.reason(event['data'])}"
        for event in history
        if event["type"] == "contents_erased"
    )


def _waiting(job: dict[str, Any], remote: Remote) -> str | None:
    """What a job waits for, as `eventjobs why` says it; nothing of one that is held, has ended or went on meanwhile."""
    if job["state"] not in (State.QUEUED, State.FAILED, State.RUNNING):
        return None
    try:
        found = documents.loads(remote.get(job_path(job["id"], "why")))
    except Problem as problem:
        if problem.code != "job_not_found":  # else it has ended meanwhile, and is gone already
            raise
        return None
    return None if found["state"] != job["state"] or found["reason"] == "running" else reason(found)


def _last_error(history: list[dict[str, Any]]) -> str:
    """What to call a job's error, which stays until another takes its place: whatever the job did since."""
    attempts = [event["data"]["attempt"] for event in history if event["type"] in ERROR_EVENTS]
    return f"last error (attempt {attempts[-1]})"


def _readable(part: str, value: Any, text: bytes) -> str:
    """The text as it was sent, but indented; an error as its lines."""
    if part == "error":
        return "\n".join(filter(None, (f"{value['type']}: {value['message']}", value.get("traceback")))).rstrip()
    return msgspec.json.format(text, indent=2).decode()


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= CONTENT_LINES_MAX:
        return text
    return "\n".join([*lines[:CONTENT_LINES_MAX], f"… {len(lines) - CONTENT_LINES_MAX} more lines (--json has all)"])


def _timeline(history: list[dict[str, Any]]) -> Iterator[Row]:
    before = None
    for event in history:
        now = output.moment(event["time"])
        yield (
            str(event["version"]),
            str(event["position"]),
            output.clock(event["time"]),
            "" if before is None else "+" + output.duration((now - before).total_seconds()),
            events.name(event),
            events.story(event),
        )
        before = now
