"""Events of the log in a line for a reader."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from eventjobs.cli import output

STYLES = {
    "job_enqueued": "cyan",
    "job_leased": "blue",
    "lease_renewed": "dim",
    "lease_released": "blue",
    "lease_expired": "yellow",
    "job_completed": "green",
    "attempt_failed": "yellow",
    "job_died": "red",
    "job_canceled": "magenta",
    "job_requeued": "cyan",
    "contents_erased": "magenta",
    "job_retired": "dim",
    "idempotency_key_forgotten": "dim",
}
CAUSES = {
    "attempts_exhausted": "no attempts are left",
    "not_retryable": "the worker said that a retry is of no use",
    "lease_expired": "the last lease ran out",
}
"""Why a job was given up."""
ERASING = ("contents_erased", "job_retired")


def name(event: dict[str, Any]) -> Text:
    """The event's type, in the colour of the state it leads to."""
    return output.text(event["type"], STYLES.get(event["type"], ""))


def story(event: dict[str, Any]) -> Text:
    """Who made it happen, and what was decided, as name=value; a content is told by its size."""
    data = event["data"]
    if event["type"] in ERASING:
        data = {"erased": erased(data)} | {name: data[name] for name in ("reason", "rule") if name in data}
    decided = "  ".join(f"{key}={_short(value)}" for key, value in data.items() if value is not None)
    return output.text(actor(event)).append("  ").append_text(output.text(decided, "dim"))


def actor(event: dict[str, Any]) -> str:
    """Who made it happen."""
    who = event["actor"]
    return " ".join(part for part in (who["type"], who["id"]) if part)


def cause(data: dict[str, Any]) -> str:
    """Why a job was given up, of its job_died."""
    return CAUSES.get(data["cause"], data["cause"])


def reason(data: dict[str, Any]) -> str:
    """What an operator said why."""
    return "no reason was given" if data["reason"] is None else data["reason"]


def erased(data: dict[str, Any]) -> str:
    """Which contents are gone with an event that erases."""
    named = [name for name in ("payload", "result") if data[f"{name}_position"] is not None]
    if errors := len(data["error_positions"]):
        named.append("1 error" if errors == 1 else f"{errors:,} errors")
    return " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:]))) or "nothing"


def _short(value: Any) -> str:
    if isinstance(value, dict) and "size" in value:
        return f"{value['size']} bytes"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(part)}" for key, part in value.items()) + "}"
    return str(value)
