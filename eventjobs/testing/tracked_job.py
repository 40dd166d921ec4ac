"""One job under the production rules, with what must be remembered to judge it: for exhaustive search.

`Rules.obey` puts one command through `decide` and `evolve` and holds the outcome against what is promised
(`eventjobs.testing.promises`). Time is counted in ticks and kept relative: a job is always looked at from NOW, what is
past is equally past, and what decides nothing (names, positions, versions, times of record) is alike in all jobs. So
there are few tracks, and two that are equal have the same future.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from attrs import evolve as with_changes
from attrs import frozen

from eventjobs.domain import commands as c
from eventjobs.domain import events as e
from eventjobs.domain.decide import Decision, KeyHolder, decide
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import WAITING, ContentRef, DeathCause, Job, Lease
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.retry import Constant
from eventjobs.domain.value import changed
from eventjobs.testing import builders as b

TICK = MICROSECONDS
"""The unit of time: a retry waits for one, a lease lasts for a few."""
NOW = b.at(1_000)

WITH_TOKEN = ("renew", "renew briefly", "complete", "fail", "give up", "release")
WITHOUT_TOKEN = ("lease", "expire", "cancel", "requeue", "enqueue")

Decide = Callable[[Job | KeyHolder | None, c.Command], Decision]
Evolve = Callable[[Job | None, e.Record], Job]


class Ask(NamedTuple):
    """A command by its name, the token it shows, and the number of the grant its worker means by it (0: none).

    With sound tokens a grant's number is its token. Under wrong rules two grants can share a token; the result that
    a worker sends tells them apart.
    """

    name: str
    token: int = 0
    grant: int = 0


@frozen
class Track:
    """A job and what a judge remembers of it.

    `granted` are the tokens in the order of their grants, `counted` the attempts that must be counted. `failed`,
    `recorded` and `acknowledged` are numbers of grants: the one whose failure was the last thing to happen, the one
    whose success is on record, the one whose worker was told that it is.
    """

    job: Job
    granted: tuple[int, ...] = ()
    counted: int = 0
    failed: int | None = None
    recorded: int | None = None
    acknowledged: int | None = None


class Outcome(NamedTuple):
    """What a command came to. `appended` is what happened, as decided and as a job whose past is not cut off."""

    track: Track
    refused: Code | None = None
    appended: tuple[e.Event, Job] | None = None


class Rules:
    """The rules under search: the production functions, or wrong ones that a search must see through."""

    def __init__(
        self, max_attempts: int = 2, lease_ticks: int = 2, decide: Decide = decide, evolve: Evolve = evolve
    ) -> None:
        self._max_attempts, self._lease = max_attempts, lease_ticks * TICK
        self._decide, self._evolve = decide, evolve

    def enqueued(self) -> Track:
        """A job that was just put in."""
        command = self.command(Ask("enqueue"))
        (event,) = self._decide(None, command)
        return Track(from_now(self.follow(None, event, command), NOW))

    def obey(self, track: Track, ask: Ask) -> Outcome:
        """What the command does to the job. Raises AssertionError for an answer of no known shape."""
        command = self.command(ask)
        held = KeyHolder(track.job, b.PAYLOAD.text) if ask.name == "enqueue" else track.job
        decision = self._decide(held, command)
        if isinstance(decision, Rejection):
            return Outcome(track, refused=decision.code)
        if not decision:
            return Outcome(track)
        (event,) = decision
        after = self.follow(track.job, event, command)
        return Outcome(_remembering(track, event, after), appended=(event, after))

    def follow(self, job: Job | None, event: e.Event, command: c.Command) -> Job:
        """The job after the event."""
        version = 1 if job is None else job.version + 1
        return self._evolve(job, e.Record(version, b.JOB_ID, version, command.now, command.actor, event))

    def command(self, ask: Ask, now: int = NOW) -> c.Command:
        """The production command that is asked for."""
        match ask.name:
            case "enqueue":
                attempts = self._max_attempts
                return b.enqueue(max_attempts=attempts, retry_policy=Constant(base=1), idempotency_key="key", now=now)
            case "lease":
                return b.lease(duration=self._lease, now=now)
            case "renew" | "renew briefly":
                duration = TICK if ask.name == "renew briefly" else None
                return b.renew(token=ask.token, duration=duration, now=now)
            case "complete":
                return b.complete(token=ask.token, result=b.content(str(ask.grant)), now=now)
            case "fail" | "give up":
                return b.fail(token=ask.token, retry=ask.name == "fail", now=now)
            case "release":
                return b.release(token=ask.token, now=now)
            case "expire":
                return b.expire(now=now)
            case "cancel":
                return b.cancel(now=now)
            case "requeue":
                return b.requeue(now=now)
        raise ValueError(ask.name)


def from_now(job: Job, now: int) -> Job:
    """The job as it looks at `now`, moved to NOW, without what no rule looks at."""
    lease = job.lease
    if lease is not None:
        lease = Lease(b.WORKER, NOW + max(0, lease.expires_at - now), lease.duration, NOW)
    return changed(
        job,
        version=1,
        run_at=NOW + max(0, job.run_at - now) if job.state in WAITING else NOW,
        lease=lease,
        result=None if job.result is None else ContentRef(1, job.result.size),
        error=None,
        lapse=None,
        updated_at=NOW,
        finished_at=None if job.finished_at is None else NOW,
    )


def later(track: Track) -> Track:
    """The track one tick later."""
    return with_changes(track, job=from_now(track.job, NOW + TICK))


def told(track: Track, grant: int) -> Track:
    """The track once the grant's worker was told that its success is on record."""
    return with_changes(track, acknowledged=grant)


def renumbered(track: Track, names: Mapping[int, int]) -> Track:
    """The track with only these grants, under other numbers in the same order, which are their tokens too.

    What was acknowledged is forgotten; the newest grant must be among those kept. For sound tokens only.
    """
    newest = len(names)
    return Track(
        changed(track.job, lease_token=newest),
        tuple(range(1, newest + 1)),
        track.counted,
        None if track.failed is None else newest,
        None if track.recorded is None else newest,
    )


def _remembering(track: Track, event: e.Event, after: Job) -> Track:
    """What the judge knows after the event, told from the events alone and not from the job."""
    granted, counted, recorded = track.granted, track.counted, track.recorded
    failed = None
    match event:
        case e.JobLeased(token=token):
            granted, counted = (*granted, token), counted + 1
        case e.LeaseReleased():
            counted -= 1
        case e.JobRequeued():
            counted = 0
        case e.JobCompleted():
            recorded = len(granted)
        case e.AttemptFailed():
            failed = len(granted)
        case e.JobDied(cause=cause) if cause is not DeathCause.LEASE_EXPIRED:
            failed = len(granted)
        case e.LeaseRenewed():
            failed = track.failed
    return Track(from_now(after, NOW), granted, counted, failed, recorded, track.acknowledged)
