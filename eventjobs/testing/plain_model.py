"""The lifecycle as dictionaries: what each command does by the table in specs/lifecycle.md, and nothing of events.

A model to hold engines against. It imports no rule of the product, so that a mistake there is not repeated here.
Times are integer microseconds, like the product's.
"""

from __future__ import annotations

from typing import Any

SECOND = 1_000_000
RETRY_DELAY = 5 * SECOND
LEASE = 15 * SECOND
REQUEST_MEMORY = 86_400 * SECOND
"""How long a lease request is known again by its id."""
ENDED = frozenset({"succeeded", "dead", "canceled"})
STATES = ("queued", "running", "failed", "succeeded", "dead", "canceled")

Job = dict[str, Any]


class Model:
    """Jobs in the order of arrival, what was granted to which request, and the newest recorded time.

    Each job: id, queue, kind, priority, max_attempts, state, attempts, token, run_at, expires_at (None unless running),
    updated_at, finished_at, version, `settled`: how a worker ended its last lease, True by success, False by failure,
    None if it did not; key: its idempotency key, None when it was forgotten; `holds`: whether any of its contents is
    kept; and `retired`.

    Every method takes the time of the clock that asked, which may have been set back: what is recorded never is.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.requests: dict[str, tuple[int, list[tuple[str, int]]]] = {}
        """Time of the grant, and the jobs with their tokens, by the request's id."""
        self.leases = self.expirations = self.last = 0

    def time(self, now: int) -> int:
        """The time that a command gets."""
        return max(now, self.last)

    def job(self, job_id: str) -> Job:
        """The job with this id."""
        return next(job for job in self.jobs if job["id"] == job_id)

    def _record(self, job: Job, now: int, **changes: Any) -> None:
        """One event of the job."""
        self.last = self.time(now)
        job.update(changes, updated_at=self.last, version=job["version"] + 1)
        if job["state"] != "running":
            job["expires_at"] = None
        if "state" in changes:
            job["finished_at"] = self.last if job["state"] in ENDED else None

    def enqueue(self, job_id: str, now: int, delay: int, key: str | None = None, **asked: Any) -> None:
        """A new job with a payload. `asked`: queue, kind, priority, max_attempts. Its key is its id, or another's."""
        job = {
            "id": job_id, "key": key or job_id, **asked, "delay": delay, "state": "queued", "attempts": 0, "token": 0,
            "run_at": self.time(now) + delay, "expires_at": None, "finished_at": None, "settled": None, "version": 0,
            "holds": True, "retired": False,
        }  # fmt: skip
        self.jobs.append(job)
        self._record(job, now)

    def due(self, queues: list[str] | None, kinds: list[str] | None, now: int) -> list[Job]:
        """The waiting jobs of those lanes whose time has come, best first."""
        due = [
            job
            for job in self.jobs
            if job["state"] in ("queued", "failed")
            and job["run_at"] <= self.time(now)
            and (queues is None or job["queue"] in queues)
            and (kinds is None or job["kind"] in kinds)
        ]
        return sorted(due, key=lambda job: (-job["priority"], job["run_at"], self.jobs.index(job)))

    def lease(self, queues: list[str] | None, kinds: list[str] | None, limit: int, now: int) -> list[str]:
        """Lease the best; their ids."""
        jobs = self.due(queues, kinds, now)[:limit]
        for job in jobs:
            more = {"attempts": job["attempts"] + 1, "token": job["token"] + 1, "settled": None}
            self._record(job, now, state="running", expires_at=self.time(now) + LEASE, **more)
        self.leases += len(jobs)
        return [job["id"] for job in jobs]

    def lease_by_request(self, request: str, limit: int, now: int) -> list[str]:
        """The first time within a day it leases; again, it shows what is still held of that."""
        granted_at, grants = self.requests.get(request, (0, []))
        if granted_at > self.time(now) - REQUEST_MEMORY:
            return [job_id for job_id, token in grants if self._runs_under(job_id, token)]
        leased = self.lease(None, None, limit, now)
        if leased:
            self.requests[request] = self.last, [(job_id, self.job(job_id)["token"]) for job_id in leased]
        return leased

    def _runs_under(self, job_id: str, token: int) -> bool:
        job = self.job(job_id)
        return (job["state"], job["token"]) == ("running", token)

    def settle(self, job_id: str, what: str, token: int, now: int) -> str:
        """Complete, fail, die (a final failure), release or renew by a token: the state it leads to, or the refusal."""
        job = self.job(job_id)
        if job["retired"]:
            return "job_not_found"
        if token != job["token"]:
            return "stale_token"
        if job["state"] != "running":
            repeated = what in ("complete", "fail", "die") and job["settled"] == (what == "complete")
            return job["state"] if repeated else "stale_token"
        now = self.time(now)
        if what == "renew":
            if now >= job["expires_at"]:
                return "lease_expired"
            self._record(job, now, expires_at=max(job["expires_at"], now + LEASE))
        elif what == "complete":
            self._record(job, now, state="succeeded", settled=True)
        elif what == "release":
            self._record(job, now, state="queued", attempts=job["attempts"] - 1, run_at=now)
        elif what == "die" or job["attempts"] == job["max_attempts"]:
            self._record(job, now, state="dead", settled=False)
        else:
            self._record(job, now, state="failed", run_at=now + RETRY_DELAY, settled=False)
        return job["state"]

    def expire(self, now: int) -> int:
        """Take every job whose lease ran out; how many."""
        now = self.time(now)
        over = [job for job in self.jobs if job["state"] == "running" and job["expires_at"] <= now]
        for job in over:
            if job["attempts"] == job["max_attempts"]:
                self._record(job, now, state="dead")
            else:
                self._record(job, now, state="queued", run_at=now)
        self.expirations += len(over)
        return len(over)

    def cancel(self, job_id: str, now: int) -> str:
        """The state it leads to, or the refusal."""
        job = self.job(job_id)
        if job["retired"]:
            return "job_not_found"
        if job["state"] in ("succeeded", "dead"):
            return "illegal_transition"
        if job["state"] != "canceled":
            self._record(job, now, state="canceled", settled=None)
        return "canceled"

    def requeue(self, job_id: str, now: int) -> str:
        """The state it leads to, or the refusal."""
        job = self.job(job_id)
        if job["retired"]:
            return "job_not_found"
        if job["state"] != "dead" or not job["holds"]:
            return "illegal_transition"
        self._record(job, now, state="queued", attempts=0, run_at=self.time(now), settled=None)
        return "queued"

    def erase(self, job_id: str, now: int) -> str:
        """Let its contents be gone: the state it stays in, or the refusal."""
        job = self.job(job_id)
        if job["retired"]:
            return "job_not_found"
        if job["state"] not in ENDED:
            return "illegal_transition"
        if job["holds"]:
            self._record(job, now, holds=False)
        return job["state"]

    def retire(self, job_id: str, now: int) -> str:
        """Let it leave the store: the state it was in, or the refusal."""
        job = self.job(job_id)
        if job["retired"]:
            return "job_not_found"
        if job["state"] not in ENDED:
            return "illegal_transition"
        self._record(job, now, holds=False, retired=True)
        return job["state"]

    def forget_key(self, job_id: str, now: int) -> str:
        """Let its key be free, also when it is retired: the state it stays in, or the refusal."""
        job = self.job(job_id)
        if job["retired"] and job["key"] is None:
            return "job_not_found"
        if job["state"] not in ENDED:
            return "illegal_transition"
        if job["key"] is not None:
            self._record(job, now, key=None)
        return job["state"]

    def shown(self) -> list[Job]:
        """The jobs that are not retired."""
        return [job for job in self.jobs if not job["retired"]]

    def endings(self, stage: str) -> dict[tuple[str, str, str], int]:
        """Of the finished jobs that hold contents ("holding"), hold none ("bare") or have a key ("keyed"): the
        earliest end by state, queue and kind."""
        ends: dict[tuple[str, str, str], int] = {}
        for job in self.jobs:
            of = {"holding": job["holds"], "bare": not job["holds"] and not job["retired"], "keyed": bool(job["key"])}
            if job["finished_at"] is not None and of[stage]:
                lane = job["state"], job["queue"], job["kind"]
                ends[lane] = min(ends.get(lane, job["finished_at"]), job["finished_at"])
        return ends

    def next_due(self, after: int) -> tuple[int, list[tuple[str, str]]] | None:
        """When waiting jobs come due next, after a time, and in which lanes."""
        coming = [job for job in self.jobs if job["state"] in ("queued", "failed") and job["run_at"] > after]
        if not coming:
            return None
        first = min(job["run_at"] for job in coming)
        return first, sorted({(job["queue"], job["kind"]) for job in coming if job["run_at"] == first})

    def next_expiry(self) -> int | None:
        """When the first lease runs out."""
        return min((job["expires_at"] for job in self.jobs if job["state"] == "running"), default=None)
