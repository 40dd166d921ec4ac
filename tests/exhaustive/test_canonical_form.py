"""A track leaves out what decides nothing. This holds it to that: the job in full and the track go the same way."""

from __future__ import annotations

from random import Random

import pytest

from eventjobs.domain.decide import KeyHolder, decide
from eventjobs.domain.rejections import Rejection
from eventjobs.domain.value import changed
from eventjobs.testing import builders as b
from eventjobs.testing.tracked_job import NOW, TICK, WITH_TOKEN, WITHOUT_TOKEN, Ask, Rules, from_now

RULES = Rules(max_attempts=2)


def asks(job) -> list[Ask]:
    """Every command, with every token that was granted and one that was not."""
    tokens = range(job.lease_token + 2)
    return [*map(Ask, WITHOUT_TOKEN), *(Ask(name, token, token) for token in tokens for name in WITH_TOKEN)]


def decided(job, ask, now):
    """The decision's kind and the job after it."""
    command = RULES.command(ask, now)
    decision = decide(KeyHolder(job, b.PAYLOAD.text) if ask.name == "enqueue" else job, command)
    if isinstance(decision, Rejection):
        return decision.code, job
    for event in decision:
        job = RULES.follow(job, event, command)
    return [event.type for event in decision], job


def follow_both(job, now):
    """Each command on the job in full and on its short form: alike in kind, and alike in short form afterwards."""
    for ask in asks(job):
        kind, after = decided(job, ask, now)
        short_kind, short_after = decided(from_now(job, now), ask, NOW)
        assert (short_kind, from_now(short_after, NOW)) == (kind, from_now(after, now)), ask
        yield after


def fresh(now):
    command = RULES.command(Ask("enqueue"), now)
    (event,) = decide(None, command)
    # where a job came in is part of it and decides nothing; a track's is at NOW
    return changed(job := RULES.follow(None, event, command), spec=changed(job.spec, created_at=NOW))


def test_the_short_form_goes_the_way_of_the_job():
    """Every life of up to five commands, with time passing before any of them."""
    lives = {(fresh(b.START), b.START)}
    for _ in range(5):
        lives = {(after, now) for job, at in lives for now in (at, at + TICK) for after in follow_both(job, now)}
    assert len(lives) > 1_000, "the search saw less than it once did"


@pytest.mark.parametrize("seed", range(5))
def test_long_lives_do_too(seed):
    """A hundred commands at random, with time passing in uneven steps."""
    random, job, now = Random(seed), fresh(b.START), b.START
    leases = 0
    for _ in range(100):
        now += random.choice([0, 0, 1, 2]) * TICK
        afters = list(follow_both(job, now))
        changed = [after for after in afters if after is not job and not after.finished_at] or afters
        job = random.choice(changed)
        leases = max(leases, job.lease_token)
    assert leases > 5
