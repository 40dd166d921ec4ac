"""What must hold for a job whatever is asked of it, in whatever order."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.domain.commands import Command, Erase, ForgetKey, Renew, Retire
from eventjobs.domain.content import Content
from eventjobs.domain.decide import Holding, decide
from eventjobs.domain.events import (
    EVENT_TYPES,
    AttemptFailed,
    ContentsErased,
    IdempotencyKeyForgotten,
    JobCompleted,
    JobDied,
    JobLeased,
    JobRetired,
    Record,
    erased_positions,
)
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import Job, State
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.retry import Constant
from eventjobs.testing import builders as b

MAKERS = {
    "lease": lambda token, text, duration, flag, now: b.lease(duration=duration or b.LEASE, now=now),
    "renew": lambda token, text, duration, flag, now: b.renew(token=token, duration=duration, now=now),
    "complete": lambda token, text, duration, flag, now: b.complete(token=token, result=text, now=now),
    "fail": lambda token, text, duration, flag, now: b.fail(
        token=token, error=text, retry=flag, delay=duration, roll=0.25, now=now
    ),
    "release": lambda token, text, duration, flag, now: b.release(token=token, now=now),
    "expire": lambda token, text, duration, flag, now: b.expire(now=now),
    "cancel": lambda token, text, duration, flag, now: b.cancel(now=now),
    "requeue": lambda token, text, duration, flag, now: b.requeue(now=now),
    "erase": lambda token, text, duration, flag, now: b.erase(now=now),
    "retire": lambda token, text, duration, flag, now: b.retire(now=now),
    "forget": lambda token, text, duration, flag, now: b.forget_key(now=now),
}
LIKELY = ["lease"] * 25 + ["renew", "fail", "release", "expire", "requeue"] * 10
"""What keeps a job going comes more often, so that long lives are met."""


def steps(seed: int, length: int) -> list[tuple]:
    """(command, seconds since the last one, how far the token is off, and what else a command may bring).

    Drawn evenly by a generator of its own: Hypothesis prefers repetition, which makes short lives.
    """
    random = Random(seed)
    return [
        (
            random.choice([*LIKELY, *MAKERS]),
            random.choice([0, 1, 2, 5, 20, 60]),
            random.choice([0, 0, 0, 0, 0, 0, -1, 1]),
            b.content(str(random.randrange(4))),
            random.choice([None, b.seconds(1), b.seconds(15), b.seconds(40)]),
            random.random() < 0.75,
        )
        for _ in range(length)
    ]


def stories() -> st.SearchStrategy:
    """Lives of one job, up to 80 commands long; a failing one is cut to as few as still fail."""
    return st.builds(steps, st.integers(0, 2**32), st.integers(1, 80))


def live(story: list[tuple], max_attempts: int) -> list[tuple]:
    """(job before, command, decision, records appended so far, job after) for each command on one job."""
    lived: list[tuple] = []
    job, records = _obey(
        None, b.enqueue(idempotency_key="k", max_attempts=max_attempts, retry_policy=Constant(base=1)), [], lived
    )
    now = b.START
    for name, gap, offset, text, duration, flag in story:
        now += b.seconds(gap)
        command = MAKERS[name](max(0, job.lease_token + offset), text, duration, flag, now)
        job, records = _obey(job, command, records, lived)
    return lived


def _subject(job: Job | None, command: Command, records: list[Record]) -> Job | Holding | None:
    """What a command is decided of: an erasure asks for the errors that were not erased before."""
    if not isinstance(command, Erase | Retire):
        return job
    erased = [record.position for record in records if isinstance(record.event, ContentsErased | JobRetired)]
    held = [record for record in records if record.position > max(erased, default=0)]
    return Holding(
        job,
        tuple(
            record.position
            for record in held
            if isinstance(record.event, AttemptFailed | JobDied) and record.event.error is not None
        ),
    )


def _obey(job: Job | None, command: Command, records: list[Record], lived: list[tuple]) -> tuple[Job, list[Record]]:
    """One command decided and, if it has an effect, recorded."""
    after, decision = job, decide(_subject(job, command, records), command)
    if not isinstance(decision, Rejection):
        for event in decision:
            version = 1 if job is None else job.version + 1
            records = [*records, Record(len(records) + 1, b.JOB_ID, version, command.now, command.actor, event)]
            after = evolve(after, records[-1])
    lived.append((job, command, decision, records, after))
    return after, records


@given(stories(), st.integers(1, 4))
def test_tokens_only_grow_and_no_two_leases_share_one(story, max_attempts):
    """Each lease has the next token, across requeues, releases and expiries too."""
    records = live(story, max_attempts)[-1][3]
    leases = [record.event.token for record in records if isinstance(record.event, JobLeased)]
    assert leases == list(range(1, len(leases) + 1))


@given(stories(), st.integers(1, 4))
def test_a_command_with_another_token_changes_nothing(story, max_attempts):
    """Only the current token's holder changes a running job, and operators, who bring none."""
    for before, command, _, _, after in live(story, max_attempts):
        token = getattr(command, "token", None)
        if before is not None and token is not None and token != before.lease_token:
            assert after is before


@given(stories(), st.integers(1, 4))
def test_a_job_succeeds_at_most_once_and_stays_as_it_is(story, max_attempts):
    """After success only retention appends; the result is there as it was, or gone."""
    lived = live(story, max_attempts)
    records = lived[-1][3]
    completions = [record.version for record in records if isinstance(record.event, JobCompleted)]
    assert len(completions) <= 1
    for record in records[completions[0] :] if completions else []:
        assert isinstance(record.event, ContentsErased | JobRetired | IdempotencyKeyForgotten)
    for before, _, _, _, after in lived:
        if before is not None and before.state is State.SUCCEEDED:
            assert after.state is State.SUCCEEDED
            assert after.result == before.result or (after.result is None and "result" in after.erased)


@given(stories(), st.integers(1, 4))
def test_what_is_erased_stays_gone(story, max_attempts):
    """An erasure takes every content that is left, and names each once; a retired job changes no more."""
    gone: list[int] = []
    for before, command, decision, records, after in live(story, max_attempts):
        if before is not None and before.retired and not isinstance(command, ForgetKey):
            assert isinstance(decision, Rejection) and decision.code is Code.JOB_NOT_FOUND
        if isinstance(decision, Rejection) or not decision or not isinstance(decision[0], ContentsErased | JobRetired):
            continue
        gone += erased_positions(decision[0])
        brought = [record.position for record in records if _brings(record)]
        assert sorted(gone) == brought
        assert after.spec.payload is None and after.result is None and after.error is None


def _brings(record: Record) -> bool:
    event = record.event
    return any(getattr(event, name, None) is not None for name in ("payload", "result", "error"))


@given(stories(), st.integers(1, 4))
def test_a_command_appends_one_event_at_most_and_versions_are_gapless(story, max_attempts):
    """Versions count from 1, one for each command that changed something."""
    lived = live(story, max_attempts)
    for _, _, decision, _, _ in lived:
        assert isinstance(decision, Rejection) or len(decision) <= 1
    assert [record.version for record in lived[-1][3]] == list(range(1, len(lived[-1][3]) + 1))


@given(stories(), st.integers(1, 4))
def test_the_same_command_again_has_no_second_effect(story, max_attempts):
    """Repeating any command but a renewal at once appends nothing; a requeue or release is refused instead."""
    for _, command, decision, records, after in live(story, max_attempts)[1:]:
        if not isinstance(decision, Rejection) and not isinstance(command, Renew):
            again = decide(_subject(after, command, records), command)
            assert isinstance(again, Rejection) or again == ()


@given(stories(), st.integers(1, 4))
def test_folding_the_records_gives_the_job(story, max_attempts):
    """The state is the fold of the events from the first, at every step; evolve meets every event there is."""
    for _, _, _, records, job in live(story, max_attempts):
        folded = None
        for record in records:
            assert record.event.type in EVENT_TYPES
            folded = evolve(folded, record)
        assert folded == job


@given(stories(), st.integers(1, 4))
def test_fields_fit_the_state_at_every_step(story, max_attempts):
    """Attempts stay in bounds, a lease is held exactly while running, times do not go backwards."""
    for before, _, _, _, job in live(story, max_attempts):
        assert 0 <= job.attempts <= job.spec.max_attempts
        assert (job.lease is not None) == (job.state is State.RUNNING)
        assert (job.death_cause is not None) == (job.state is State.DEAD)
        assert (job.finished_at is not None) == (job.state in {State.SUCCEEDED, State.DEAD, State.CANCELED})
        assert job.error is None or job.lapse is None
        assert before is None or job.updated_at >= before.updated_at


@given(stories(), st.integers(1, 4))
def test_no_job_is_stuck(story, max_attempts):
    """From wherever a job is, expiring its leases and leasing it again and again brings it to an end."""
    job = live(story, max_attempts)[-1][4]
    for step in range(1, 3 * max_attempts + 3):
        if job.state in {State.SUCCEEDED, State.DEAD, State.CANCELED}:
            return
        now = b.at(10_000 * step)
        command = b.expire(now=now) if job.state is State.RUNNING else b.lease(now=now)
        (event,) = decide(job, command)
        job = evolve(job, Record(job.version + 1, b.JOB_ID, job.version + 1, now, command.actor, event))
    raise AssertionError(f"no end in sight: {job}")


@given(st.text().map(b.content), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_a_digest_depends_on_text_and_salt(content, salt, other):
    """The same text under another salt has another digest; the size is the text's alone."""
    one, two = Content(content.text, salt).digest(), Content(content.text, other).digest()
    assert (one == two) == (salt == other) and one.size == two.size == len(content.text)
