"""What a coordinator says of its settings when it starts: what it lets go, what it moves, and how it signs."""

from __future__ import annotations

from collections.abc import Iterator

from eventjobs.domain.durations import age_text
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.retention import Rules
from eventjobs.store.checkpoint import Checkpoints

REPEATED_FOR = 60 * MICROSECONDS
"""How long after a job's end a worker may still repeat what it said of it, as the answer was lost on the way."""
_ENDS = ("succeeded", "dead", "canceled")


def settings_lines(retention: Rules, archive_after: int | None, notes: Checkpoints) -> Iterator[str]:
    """Lines for the log of the process. `archive_after` is an age in microseconds, None for never."""
    texts = ", ".join(rule.text for rule in retention.rules)
    kept = f"lets go of finished jobs by --retain: {texts}" if texts else "keeps finished jobs for ever (no --retain)"
    moved = "no records go to the archive (no --archive-after)"
    if archive_after is not None:
        moved = f"records go to the archive at the age of {age_text(archive_after)}"
    signed = "unsigned" if notes.key is None else f"signed by {notes.key.name}"
    yield f"{kept}; {moved}; heads of {notes.origin}, {signed}"
    if hasty := [rule for rule in retention.rules if rule.subject in _ENDS and _is_hasty(rule.age)]:
        yield (
            f"warning: --retain {hasty[0].text}: a worker that repeats what it said of a job, as the answer was lost, "
            "finds no such job any more; a minute is enough"
        )


def _is_hasty(age: int | None) -> bool:
    return age is not None and age < REPEATED_FOR
