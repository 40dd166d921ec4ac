"""The ledger of answers: what was acknowledged must be in the log, what was refused must not.

An answer is held against the log at the moment it leaves the coordinator: by then everything it says is on disk, or it
never may be. At the end the accounts are balanced: nothing is in the log that nobody asked for, or that was refused.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import orjson

from eventjobs.domain.job import DeathCause
from eventjobs.testing.simulation.logbook import Logbook
from eventjobs.testing.simulation.messages import Item, Message, enqueued, short
from eventjobs.testing.simulation.verdict import Verdict

DONE = {
    "renew": ("lease_renewed",),
    "complete": ("job_completed",),
    "fail": ("attempt_failed", "job_died"),
    "release": ("lease_released",),
}
"""The records in which a worker's request shows."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REFUSALS_KNOWN = {"stale_token", "lease_expired", "illegal_transition", "idempotency_key_reused", "storage_full"}
"""What may be refused in a simulation, where every request is well-formed and about a job that is there."""


class Ledger:
    """Takes down what arrived at the coordinator and what left it. `refusals` counts by code."""

    def __init__(self, verdict: Verdict, logbook: Logbook) -> None:
        self._verdict, self._log = verdict, logbook
        self._may_be_done: Counter[tuple[str, Item]] = Counter()
        self.acknowledged = 0
        self.refusals: Counter[str] = Counter()

    def arrives(self, request: Message) -> None:
        """A request is in: from now on it may take effect, once."""
        for item in request.items:
            self._may_be_done[request.verb, item] += 1

    def leaves(self, request: Message, actor: str, status: int, text: bytes) -> None:
        """An answer is out."""
        if status == 500:
            return self._verdict.breach(f"the API failed to handle {request}")
        body = orjson.loads(text)
        if status == 503:
            return None  # not now, or unknown: it may still turn out to have been done
        if status >= 400:
            return self._refuses(request, actor, body)
        self._acknowledges(request, actor, status, body)
        return None

    def balance(self) -> None:
        """At the end: no record of a worker's request beyond those that were accepted or left open."""
        for verb, types in DONE.items():
            recorded: Counter[Item] = Counter()
            for (event_type, job_id, token), count in self._log.counts.items():
                if event_type in types and not self._by_expiry(event_type, job_id, token):
                    recorded[Item(job_id, token)] += count
            for item, count in recorded.items():
                allowed = self._may_be_done[verb, item]
                self._hold(count <= allowed, f"{verb} {item} is {count} times in the log; {allowed} were not refused")

    def _by_expiry(self, event_type: str, job_id: str, token: int) -> bool:
        event = self._log.facts[event_type, job_id, token].event
        return event_type == "job_died" and event.cause is DeathCause.LEASE_EXPIRED

    # Refusals

    def _refuses(self, request: Message, actor: str, problem: dict) -> None:
        code = problem["code"]
        self.refusals[code] += 1
        self._hold(code in REFUSALS_KNOWN, f"{request} was refused: {code}, {problem['detail']}")
        self._hold(self._log.by_actor[actor] == 0, f"{request} was refused with {code}, but is in the log")
        for item in request.items:
            self._may_be_done[request.verb, item] -= 1

    # Acknowledgements

    def _acknowledges(self, request: Message, actor: str, status: int, body: dict) -> None:
        self.acknowledged += 1
        match request.verb:
            case "enqueue":
                jobs = body.get("jobs", [body])
                self._enqueued(request, jobs)
                self._created(request, actor, body.get("created", int(status == 201)))
            case "lease":
                self._leased(request, body["jobs"])
            case "requeue dead":
                told, recorded = body["requeued"], self._log.by_actor[actor]
                self._hold(told == recorded, f"{told} jobs were said to be requeued, {recorded} are in the log")
            case "cancel":
                (item,) = request.items
                canceled = ("job_canceled", item.job_id, 0) in self._log.facts
                self._hold(canceled, f"{request} was acknowledged, but is not in the log")
            case "requeue":
                self._hold(self._log.by_actor[actor] == 1, f"{request} was acknowledged, but is not in the log")
            case "read":
                self._shown(request, body)
            case _:
                for item, result in zip(request.items, body.get("results", [{"ok": True, **body}]), strict=True):
                    self._settled(request.verb, item, result)

    def _enqueued(self, request: Message, jobs: list[dict]) -> None:
        for asked, job in zip(enqueued(request), jobs, strict=True):
            key = asked["idempotency_key"]
            record = self._log.facts.get(("job_enqueued", job["id"], 0))
            kept = record is not None and record.event.idempotency_key == key and job["payload"] == asked["payload"]
            self._hold(kept, f"the enqueue of {key} was acknowledged, but is not in the log")

    def _created(self, request: Message, actor: str, told: int) -> None:
        recorded = self._log.by_actor[actor]
        self._hold(told == recorded, f"{request}: {told} jobs were said to be created, {recorded} are in the log")

    def _leased(self, request: Message, jobs: list[dict]) -> None:
        self._hold(len(jobs) <= request.body["max_jobs"], f"{request} was given {len(jobs)} jobs")
        for job in jobs:
            record = self._log.facts.get(("job_leased", job["id"], job["lease_token"]))
            given = (request.body["worker"], request.body["request_id"], job["attempts"])
            kept = record is not None and given == (record.event.worker, record.event.request_id, record.event.attempt)
            self._hold(kept, f"job {short(job['id'])} was given out by {request}, but that is not in the log")

    def _settled(self, verb: str, item: Item, result: dict) -> None:
        if not result["ok"]:
            code = result["problem"]["code"]
            self.refusals[code] += 1
            self._may_be_done[verb, item] -= 1
            self._hold(code in REFUSALS_KNOWN, f"{verb} {item} was refused: {code}")
            return
        self.acknowledged += 1
        done = any((event_type, item.job_id, item.token) in self._log.facts for event_type in DONE[verb])
        self._hold(done, f"{verb} {item} was acknowledged, but is not in the log")
        life = self._log.lives[item.job_id]
        if verb == "renew" and life.state == "running" and life.token == item.token:
            kept = _microseconds(result["lease_expires_at"]) <= life.expires_at
            self._hold(kept, f"{verb} {item} was acknowledged until a time that is not in the log")

    def _shown(self, request: Message, body: dict) -> None:
        """Statistics are those of the very position they name; a stretch of the log or of a history has no gap."""
        target = request.body["target"]
        if target == "/stats":
            told = {state: count for state, count in body["jobs"].items() if count}
            true = {str(state): count for state, count in self._log.states_at[body["head"]["size"]].items() if count}
            self._hold(told == true, f"/stats says {told} where the log has {true}")
        elif "events" in body:
            number = "position" if target.startswith("/events") else "version"
            numbers = [event[number] for event in body["events"]]
            gapless = not numbers or numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            self._hold(gapless, f"{request} shows {number}s {numbers}")

    def _hold(self, kept: bool, what: str) -> None:
        self._verdict.hold(kept, what)


def _microseconds(time: str) -> int:
    return (datetime.fromisoformat(time) - EPOCH) // timedelta(microseconds=1)
