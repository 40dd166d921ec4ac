"""What is promised of a job's lifecycle, held against the outcome of one command.

Written from the lifecycle's table, not from the code of `decide`: what may be refused, what may go without effect,
what may be appended. A broken promise is a sentence.
"""

from __future__ import annotations

from eventjobs.domain import events as e
from eventjobs.domain.job import Job, State
from eventjobs.testing.tracked_job import NOW, WITH_TOKEN, Ask, Outcome, Track

ENDED = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELED})


def broken_promise(track: Track, ask: Ask, outcome: Outcome) -> str | None:
    """The promise that the outcome of a command on the track breaks; None when all are kept."""
    if outcome.refused is not None:
        return _wrongly_refused(track, ask)
    if outcome.appended is None:
        return _wrongly_without_effect(track, ask)
    event, after = outcome.appended
    return _wrongly_appended(track, ask, event, after) or _misfit(outcome.track, after)


def holds_live_lease(track: Track, ask: Ask) -> bool:
    """Whether the command comes from the one worker who has the job: the newest grant's, while it is not over."""
    return track.job.state is State.RUNNING and ask.grant == len(track.granted) and ask.token == track.granted[-1]


def _wrongly_refused(track: Track, ask: Ask) -> str | None:
    """A refusal is right only where the table has one."""
    job = track.job
    in_time = job.lease is not None and job.lease.expires_at > NOW
    match ask.name:
        case "enqueue":
            return "the same enqueue was refused"
        case "lease" if job.waiting and job.run_at <= NOW:
            return "a job that waits and is due was not given"
        case "renew" if holds_live_lease(track, ask) and in_time:
            return "the lease's own worker may not renew it in time"
        case "expire" if job.state is State.RUNNING and not in_time:
            return "a lease that ran out was not ended"
        case "cancel" if job.state not in (State.SUCCEEDED, State.DEAD):
            return "a cancel was refused"
        case "requeue" if job.state is State.DEAD:
            return "a dead job was not requeued"
        case "complete" | "fail" | "give up" | "release" if holds_live_lease(track, ask):
            return "the live lease's own worker was refused"
        case "complete" if ask.grant and ask.grant == track.recorded:
            return "a recorded success was refused when it was sent again"
        case "fail" | "give up" if ask.grant and ask.grant == track.failed:
            return "a recorded failure was refused when it was sent again"
    return None


def _wrongly_without_effect(track: Track, ask: Ask) -> str | None:
    """Nothing may be answered as done without an event but what was done before."""
    match ask.name:
        case "enqueue":
            return None
        case "cancel":
            done = track.job.state is State.CANCELED
        case "complete":
            done = ask.grant == track.recorded
        case "fail" | "give up":
            done = ask.grant == track.failed
        case _:
            done = False
    return None if done else "a command was answered as done, and nothing was recorded"


def _wrongly_appended(track: Track, ask: Ask, event: e.Event, after: Job) -> str | None:
    job = track.job
    if ask.name in WITH_TOKEN and not holds_live_lease(track, ask):
        if ask.name == "complete" and track.recorded is not None:
            return "a success was recorded twice"
        if ask.name in ("fail", "give up") and ask.grant and ask.grant == track.failed:
            return "a failure was recorded twice"
        return "a command with another token changed the job"
    if job.state in (State.SUCCEEDED, State.CANCELED):
        return f"something was appended to a job that is {job.state}"
    if (job.state is State.DEAD) != (ask.name == "requeue"):
        return "a dead job can be requeued, and only that"
    if ask.name == "enqueue":
        return "the same enqueue was recorded twice"
    if isinstance(event, e.JobLeased):
        return _wrongly_leased(track, event)
    if after.lease_token != job.lease_token:
        return "a token changed without a lease"
    if isinstance(event, e.LeaseRenewed):
        if job.lease.expires_at <= NOW:
            return "a lease that had run out was renewed"
        if event.expires_at < job.lease.expires_at:
            return "a renewal moved the expiry backwards"
    if ask.name == "expire" and (job.lease is None or job.lease.expires_at > NOW):
        return "a lease was ended before its time"
    return None


def _wrongly_leased(track: Track, event: e.JobLeased) -> str | None:
    if not track.job.waiting or track.job.run_at > NOW:
        return "a job was given that does not wait, or is not due"
    if event.token <= max(track.granted, default=0):
        return "a lease has a token that an earlier lease had, or a smaller one"
    if event.expires_at <= NOW:
        return "a lease is over as it begins"
    return None


def _misfit(track: Track, job: Job) -> str | None:
    """What must hold of a job in itself, and of what is remembered of it. `track` is the one after the event."""
    if job.version != 2:  # a track's own version is always 1
        return "a version was left out or given twice"
    if job.attempts != track.counted or job.attempts > job.spec.max_attempts:
        return "attempts are miscounted, or more than max_attempts"
    if job.lease_token != max(track.granted, default=0):
        return "the job's token is not the newest"
    if (job.lease is not None) != (job.state is State.RUNNING):
        return "a lease without a running job, or the reverse"
    if (job.finished_at is not None) != (job.state in ENDED) or (job.death_cause is None) == (job.state is State.DEAD):
        return "the end's time and cause do not fit the state"
    if (track.recorded is not None) != (job.state is State.SUCCEEDED):
        return "a success is not on record, or without one the job succeeded"
    return None
