"""The log as the demo reads it: events folded by a few rules of its own, apart from the coordinator's code.

The rules are those a reader of the log can hold it to: positions and versions without gaps, tokens that grow by one
at each lease, no event under a token that is not the live one, and nothing after success.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from attrs import Factory, define, frozen

LONG_AGO = datetime.min.replace(tzinfo=UTC)


@frozen
class Taken:
    """A lease as it was given: the job, the token and the worker."""

    job_id: str
    token: int
    worker: str


@define
class Story:
    """What the log tells of one job. `holder` is the worker that has it now, since `leased_at` (UTC); `counts` its
    events by type."""

    kind: str
    version: int = 0
    token: int = 0
    holder: str | None = None
    leased_at: datetime = LONG_AGO
    result_sizes: list[int] = Factory(list)
    counts: Counter[str] = Factory(Counter)


@define
class Ledger:
    """The fold so far: `stories` by job id, `counts` of events by type, the leases that ran out, and every `fault`."""

    position: int = 0
    stories: dict[str, Story] = Factory(dict)
    counts: Counter[str] = Factory(Counter)
    expired: list[Taken] = Factory(list)
    faults: list[str] = Factory(list)

    def take(self, event: dict[str, Any]) -> None:
        """Fold in the next event, as GET /events gives it."""
        if event["position"] != self.position + 1:
            self.faults.append(f"position {event['position']} follows position {self.position}")
        self.position = event["position"]
        self.counts[event["type"]] += 1
        story = self._story(event)
        if event["version"] != story.version + 1:
            self.faults.append(f"{_name(event)}: version {event['version']} follows version {story.version}")
        story.version = event["version"]
        if story.result_sizes:
            self.faults.append(f"{_name(event)}: came after the job had succeeded")
        story.counts[event["type"]] += 1
        self._follow(story, event)

    def held_by(self, worker: str, kind: str, since: datetime, until: datetime) -> set[Taken]:
        """The jobs of a kind that the worker holds and got between the times, as far as the log was read."""
        return {
            Taken(job_id, story.token, worker)
            for job_id, story in self.stories.items()
            if story.holder == worker and story.kind == kind and since <= story.leased_at <= until
        }

    def succeeded(self) -> int:
        """How many jobs have succeeded."""
        return sum(bool(story.result_sizes) for story in self.stories.values())

    def dead(self) -> int:
        """How many jobs are dead now."""
        return sum(story.counts["job_died"] > story.counts["job_requeued"] for story in self.stories.values())

    def _story(self, event: dict[str, Any]) -> Story:
        known = self.stories.get(event["job_id"])
        if known is None:
            if event["type"] != "job_enqueued":
                self.faults.append(f"{_name(event)}: the job was never enqueued")
            known = self.stories[event["job_id"]] = Story(event["data"].get("kind", ""))
        return known

    def _follow(self, story: Story, event: dict[str, Any]) -> None:
        data = event["data"]
        if event["type"] == "job_leased":
            if story.holder is not None:
                self.faults.append(f"{_name(event)}: leased while {story.holder} held it")
            if data["token"] != story.token + 1:
                self.faults.append(f"{_name(event)}: token {data['token']} follows token {story.token}")
            story.token, story.holder = data["token"], data["worker"]
            story.leased_at = datetime.fromisoformat(event["time"])
            return
        if "token" in data and (story.holder is None or data["token"] != story.token):
            self.faults.append(f"{_name(event)}: came under token {data['token']}, which is not the live one")
        if event["type"] == "lease_renewed":
            return
        if event["type"] == "lease_expired" or data.get("cause") == "lease_expired":
            self.expired.append(Taken(event["job_id"], data["token"], story.holder or "nobody"))
        if event["type"] == "job_completed":
            story.result_sizes.append(0 if data["result"] is None else data["result"]["size"])
        story.holder = None


def _name(event: dict[str, Any]) -> str:
    return f"job {event['job_id']}, {event['type']} at position {event['position']}"
