"""One job with what must be remembered to judge it, for exhaustive search: the production rules, and the promises.

`Track` is a job as it stands now and the facts that no correct job needs but a judge does: every token ever granted,
the success that was recorded. `Rules.obey` puts one command through `decide` and `evolve` and holds the outcome
against what is promised. Time is counted in ticks and kept relative: a job is always looked at from NOW, what is past
is equally past, and what decides nothing (names, positions, versions, times of record) is the same in all jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import attrs
from attrs import frozen

from eventjobs.domain import commands as c
from eventjobs.domain import decide as rules
from eventjobs.domain import events as e
from eventjobs.domain.decide import UNCHANGED, Decision, KeyHolder
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import ContentRef, Job, Lapse, Lease, State
from eventjobs.domain.limits import MICROSECONDS
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.domain.retry import Constant
from eventjobs.testing import builders as b

TICK = MICROSECONDS
NOW = b.at(1_000)
ENDED = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELED})
SETTLING = frozenset({"complete", "fail", "give up", "release"})
WITH_TOKEN = (*sorted(SETTLING), "renew")
WITHOUT_TOKEN = ("lease", "expire", "cancel", "requeue", "enqueue")

Decide = Callable[[Job | KeyHolder | None, c.Command], Decision]


class Ask(NamedTuple):
    """A command by name. `grant` is the number of the lease its worker holds: with sound tokens, the token itself."""

    name: str
    token: int = 0
    grant: int = 0


@frozen
class Track:
    """A job and what a judge remembers of it. Tokens are in the order in which they were granted.

    `counted` is the attempts that must be counted, `recorded` the grant whose success is on record, `acknowledged`
    the one whose worker was told so.
    """

    job: Job
    granted: tuple[int, ...] = ()
    counted: int = 0
    recorded: int | None = None
    acknowledged: int | None = None


class Outcome(NamedTuple):
    """What a command came to: the track after it, the refusal's code or None, the event's type or None, the fault."""

    after: Track
    refused: Code | None
    appended: str | None
    broken: str | None


class Rules:
    """The rules under search. `decide` is the production function, or a wrong one that the search must see through."""

    def __init__(self, max_attempts: int = 2, lease_ticks: int = 2, decide: Decide = rules.decide) -> None:
        self._decide = decide
        self._lease = lease_ticks * TICK
        enqueue = b.enqueue(max_attempts=max_attempts, retry_policy=Constant(base=1), idempotency_key="key", now=NOW)
        (event,) = decide(None, enqueue)
        self.enqueued = Track(from_now(evolve(None, e.Record(1, b.JOB_ID, 1, NOW, b.PRODUCER_ACTOR, event)), NOW))
        self._commands = {"enqueue": enqueue}

    def obey(self, track: Track, ask: Ask) -> Outcome:
        """What the command does to the job, and whether that is as promised."""
        job, command = track.job, self.command(ask)
        decision = self._decide(KeyHolder(job, b.PAYLOAD.text) if ask.name == "enqueue" else job, command)
        if isinstance(decision, Rejection):
            return Outcome(track, decision.code, None, _wrongly_refused(track, ask))
        if decision == UNCHANGED:
            return Outcome(track, None, None, _wrongly_unchanged(track, ask))
        record = e.Record(job.version + 1, b.JOB_ID, job.version + 1, NOW, command.actor, decision[0])
        after = evolve(job, record)
        broken = _wrongly_appended(track, ask, decision, after)
        return Outcome(_remember(track, ask, decision[0], after), None, decision[0].type, broken)

    def command(self, ask: Ask, now: int = NOW) -> c.Command:
        """The production command that is asked for."""
        result = b.content(f'"of grant {ask.grant}"')
        match ask.name:
            case "enqueue":
                return b.enqueue(
                    max_attempts=self.enqueued.job.spec.max_attempts,
                    retry_policy=Constant(base=1),
                    idempotency_key="key",
                    now=now,
                )
        makers: dict[str, Callable[[], c.Command]] = {
            "lease": lambda: b.lease(duration=self._lease, now=now),
            "renew": lambda: b.renew(token=ask.token, now=now),
            "complete": lambda: b.complete(token=ask.token, result=result, now=now),
            "fail": lambda: b.fail(token=ask.token, now=now),
            "give up": lambda: b.fail(token=ask.token, retry=False, now=now),
            "release": lambda: b.release(token=ask.token, now=now),
            "expire": lambda: b.expire(now=now),
            "cancel": lambda: b.cancel(now=now),
            "requeue": lambda: b.requeue(now=now),
        }
        return makers[ask.name]()
