"""`eventjobs show`: a job, and everything that happened to it."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import orjson
from rich.table import Table

from eventjobs.cli import events, options, output
from eventjobs.cli.remote import Remote, job_path, with_remote

CONTENT_LINES_MAX = 40
"""Lines of a payload, result or traceback that are shown; --json has everything."""


@click.command(short_help="Show a job and its history.")
@click.argument("job_id", metavar="ID")
@options.json_option
@with_remote
def show(job_id: str, as_json: bool, remote: Remote) -> None:
    """Show a job and its history: every event with its time, who made it happen, and what was decided."""
    job_text = remote.get(job_path(job_id))
    history_text = remote.get(job_path(job_id, "events"))
    if as_json:
        history = msgspec.json.decode(history_text, type=dict[str, msgspec.Raw])["events"]
        output.print_json(b'{"job":' + job_text + b',"events":' + bytes(history) + b"}")
        return
    job = orjson.loads(job_text)
    console = output.console()
    console.print(f"[bold]{output.plain(job['kind'])}[/] {job['id']}  {output.state(job['state'])}")
    console.print(_facts(job))
    texts = msgspec.json.decode(job_text, type=dict[str, msgspec.Raw])
    for part in ("payload", "result", "error"):
        if job[part] is not None:
            console.print(f"\n[bold]{part}[/]")
            console.print(output.plain(_shortened(_readable(part, job[part], bytes(texts[part])))))
    console.print("\n[bold]history[/]")
    console.print(_timeline(orjson.loads(history_text)["events"]))


def _facts(job: dict[str, Any]) -> Table:
    policy = job["retry_policy"]
    numbers = " ".join(f"{name}={value}" for name, value in policy.items() if name != "type")
    facts = {
        "queue": f"{job['queue']}, priority {job['priority']}",
        "attempts": f"{job['attempts']} of {job['max_attempts']}, retry {policy['type']} {numbers}",
        "run at": output.clock(job["run_at"]),
        "lease": f"{job['lease_owner']} until {output.clock(job['lease_expires_at'])}" if job["lease_owner"] else None,
        "token": job["lease_token"],
        "key": job["idempotency_key"],
        "created": output.clock(job["created_at"]),
        "finished": output.clock(job["finished_at"]),
    }
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if value not in (None, ""):
            table.add_row(f"[dim]{name}[/]", output.plain(value))
    return table


def _readable(part: str, value: Any, text: bytes) -> str:
    """The text as it was sent, but indented; an error as its lines."""
    if part == "error":
        return "\n".join(filter(None, (f"{value['type']}: {value['message']}", value.get("traceback"))))
    return msgspec.json.format(text, indent=2).decode()


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= CONTENT_LINES_MAX:
        return text
    return "\n".join([*lines[:CONTENT_LINES_MAX], f"… {len(lines) - CONTENT_LINES_MAX} more lines (--json has all)"])


def _timeline(history: list[dict[str, Any]]) -> Table:
    table = output.table("#version", "#position", "time", "#after", "event", "by", "details")
    before = None
    for event in history:
        now = output.moment(event["time"])
        table.add_row(
            str(event["version"]),
            str(event["position"]),
            output.clock(event["time"]),
            "" if before is None else "+" + output.duration((now - before).total_seconds()),
            events.name(event),
            events.actor(event),
            events.details(event),
        )
        before = now
    return table
