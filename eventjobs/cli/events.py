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
}


def name(event: dict[str, Any]) -> Text:
    """The event's type, in the colour of the state it leads to."""
    return output.text(event["type"], STYLES.get(event["type"], ""))


def story(event: dict[str, Any]) -> Text:
    """Who made it happen, and what was decided, as name=value; a content is told by its size."""
    who = event["actor"]
    actor = " ".join(part for part in (who["type"], who["id"]) if part)
    decided = "  ".join(f"{key}={_short(value)}" for key, value in event["data"].items() if value is not None)
    return output.text(actor).append("  ").append_text(output.text(decided, "dim"))


def _short(value: Any) -> str:
    if isinstance(value, dict) and "size" in value:
        return f"{value['size']} bytes"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(part)}" for key, part in value.items()) + "}"
    return str(value)
