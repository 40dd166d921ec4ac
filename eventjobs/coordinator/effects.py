"""What a commit did that others wait for: jobs that became available, times to wake up at, facts worth a log line."""

from __future__ import annotations

from eventjobs.domain.events import AttemptFailed, Event, JobCanceled, JobDied, JobRequeued, LeaseExpired
from eventjobs.domain.job import DeathCause, Job
from eventjobs.domain.rejections import Rejection

NOTABLE = (LeaseExpired, JobDied, JobCanceled, JobRequeued, AttemptFailed)
"""Events that are not the ordinary way of a job: each is worth a line in the program's log."""

Lane = tuple[str, str]
"""(queue, kind)"""


class Effects:
    """Collected while a transaction is worked on; published only after its commit.

    `available` counts the jobs that can be leased now, by lane. `next_due` and `next_expiry` are the earliest future
    times (microseconds) at which a job of this commit comes due or a lease of it runs out. `silent` are the workers
    that let a lease run out. `appended` lists (job before, event, job after), `notable` those among them whose events
    are NOTABLE, `refused` the rejections given.
    """

    def __init__(self) -> None:
        self.available: dict[Lane, int] = {}
        self.next_due: int | None = None
        self.next_expiry: int | None = None
        self.silent: set[str] = set()
        self.appended: list[tuple[Job | None, Event, Job]] = []
        self.notable: list[tuple[Job | None, Event, Job]] = []
        self.refused: list[tuple[object, Rejection]] = []

    def saw(self, before: Job | None, event: Event, after: Job) -> None:
        """Take note of an appended event."""
        appended = (before, event, after)
        self.appended.append(appended)
        if type(event) in NOTABLE:
            self.notable.append(appended)
        if type(event) is LeaseExpired or (type(event) is JobDied and event.cause is DeathCause.LEASE_EXPIRED):
            self.silent.add(before.lease.worker)
        if after.waiting:
            if after.run_at <= after.updated_at:
                lane = (after.spec.queue, after.spec.kind)
                self.available[lane] = self.available.get(lane, 0) + 1
            elif self.next_due is None or after.run_at < self.next_due:
                self.next_due = after.run_at
        elif after.lease is not None and (self.next_expiry is None or after.lease.expires_at < self.next_expiry):
            self.next_expiry = after.lease.expires_at
