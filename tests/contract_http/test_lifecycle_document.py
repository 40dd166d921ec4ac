"""The tables in specs/lifecycle.md are what decide and evolve do, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventjobs.domain.commands import Command
from eventjobs.domain.decide import UNCHANGED, Decision
from eventjobs.domain.events import EVENT_TYPES, Event
from eventjobs.domain.job import ContentRef, DeathCause, Job, Lapse
from eventjobs.domain.rejections import Code, Rejection
from eventjobs.testing import builders as b
from eventjobs.testing.given import given

LIFECYCLE = Path(__file__).parents[2] / "specs" / "lifecycle.md"
TOKEN = 3
LAST = 2
"""Two attempts are allowed; the jobs of rows that say "none is left" are at their second."""


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading: the first cell to the others, in the order of the columns."""
    section = LIFECYCLE.read_text(encoding="utf-8").partition(f"## {heading}")[2]
    table = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in table[1:])}


TABLE = rows("What each command does in each state")
EFFECTS = rows("What each event does to the job")
COLUMNS = ["no job", "queued", "failed", "running, t = T", "running, t ≠ T", "succeeded", "dead", "canceled"]


def history(column: str, attempt: int) -> tuple[Event, ...]:
    """Events that bring a job into a column's state, its current token 3."""
    if column == "no job":
        return ()
    running = (
        b.enqueued(max_attempts=LAST, idempotency_key="k"),
        b.leased(token=TOKEN, attempt=attempt, expires_at=b.at(30)),
    )
    return running + {
        "queued": (b.released(token=TOKEN),),
        "failed": (b.failed(token=TOKEN, attempt=attempt, run_at=b.NOW),),
        "succeeded": (b.completed(token=TOKEN, attempt=attempt),),
        "dead": (b.died(token=TOKEN, attempt=attempt),),
        "canceled": (b.canceled(),),
    }.get(column, ())


COMMANDS = {
    "lease, `run_at` ≤ now": lambda token: b.lease(now=b.NOW),
    "lease, `run_at` > now": lambda token: b.lease(now=b.NOW - 1),
    "renew, now < expiry": lambda token: b.renew(token=token, now=b.at(30) - 1),
    "renew, now ≥ expiry": lambda token: b.renew(token=token, now=b.at(30)),
    "complete": lambda token: b.complete(token=token, now=b.at(31)),
    "fail, a retry is left": lambda token: b.fail(token=token, now=b.at(31)),
    "fail, none is left": lambda token: b.fail(token=token, now=b.at(31)),
    "release": lambda token: b.release(token=token, now=b.at(31)),
    "expire, now < expiry": lambda token: b.expire(now=b.at(30) - 1),
    "expire, an attempt is left": lambda token: b.expire(now=b.at(30)),
    "expire, none is left": lambda token: b.expire(now=b.at(30)),
    "cancel": lambda token: b.cancel(now=b.at(31)),
    "requeue": lambda token: b.requeue(now=b.at(31)),
    "erase": lambda token: b.erase(now=b.at(31)),
    "retire": lambda token: b.retire(now=b.at(31)),
    "forget key": lambda token: b.forget_key(now=b.at(31)),
}
OWN = ("lease", "expire", "retire", "forget key")
"""The coordinator's own commands, which never ask of a job that is not there."""


def in_words(decision: Decision) -> str:
    """A decision as the table says it."""
    if decision == UNCHANGED:
        return "same answer"
    if not isinstance(decision, Rejection):
        (event,) = decision
        return f"**{event.type}**"
    internal = {Code.NOT_AVAILABLE: "not offered", Code.NOT_EXPIRED: "nothing"}
    return internal.get(decision.code, f"`{decision.code}`")


def decided(row: str, column: str, token: int) -> str:
    """What the core answers to a row's command in a column's state."""
    command: Command = COMMANDS[row](token)
    return in_words(given(*history(column, LAST if "none is left" in row else 1)).when(command).decision)


def said(cell: str, current: bool) -> str:
    """What a cell says of the current token, or of another one."""
    both = re.fullmatch(r"t = T: (.*); else (.*)", cell)
    return cell if both is None else both[1 if current else 2]


def test_the_table_has_every_command_and_state():
    """The document's rows and columns are those that are held here, and every cell of them says something."""
    assert list(TABLE) == list(COMMANDS)
    header = LIFECYCLE.read_text(encoding="utf-8").partition("| command | ")[2].partition(" |\n")[0]
    assert header.split(" | ") == COLUMNS
    asked = [row for row in COMMANDS if not row.startswith(OWN)]
    assert [row for row in COMMANDS if not all(TABLE[row][1:])] == []
    assert [row for row in asked if not TABLE[row][0]] == []


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", COMMANDS)
def test_a_cell_is_what_decide_does(row, column):
    """For the job's own token and for another one, the core answers as the document says."""
    cell = TABLE[row][COLUMNS.index(column)]
    if not cell:
        return
    tokens = {"running, t = T": [True], "running, t ≠ T": [False]}.get(column, [True, False])
    for current in tokens:
        assert decided(row, column, TOKEN if current else TOKEN - 1) == said(cell, current)


def test_a_job_that_died_by_expiry_takes_no_failure():
    """Its worker has failed nothing, so a failure with the last token is stale."""
    dead = given(
        b.enqueued(max_attempts=1),
        b.leased(token=TOKEN),
        b.died(cause=DeathCause.LEASE_EXPIRED, token=TOKEN, error=None),
    )
    assert in_words(dead.when(b.fail(token=TOKEN)).decision) == "`stale_token`"


FAILED = (b.enqueued(idempotency_key="k"), b.leased(), b.failed(run_at=b.at(5)))
EXPIRED = (b.enqueued(idempotency_key="k"), b.leased(), b.expired(run_at=b.at(5)))
"""A job that waits with the error of a worker, and one with that of an expiry."""
LEASED = b.leased(token=2, attempt=2, expires_at=b.at(40))
DIED = b.died(token=2, attempt=2)
DIED_BY_EXPIRY = b.died(cause=DeathCause.LEASE_EXPIRED, token=2, attempt=2, error=None)
WAITING, RUNNING = [FAILED, EXPIRED], [(*FAILED, LEASED), (*EXPIRED, LEASED)]
DEAD = [(*FAILED, LEASED, DIED), (*EXPIRED, LEASED, DIED_BY_EXPIRY)]

HAPPENINGS: list[tuple[Event, list[tuple[Event, ...]]]] = [
    (b.enqueued(), [()]),
    (LEASED, WAITING),
    (b.renewed(token=2), RUNNING),
    (b.released(token=2), RUNNING),
    (b.expired(token=2, attempt=2), RUNNING),
    (b.failed(token=2, attempt=2), RUNNING),
    (b.completed(token=2, attempt=2), RUNNING),
    (DIED, RUNNING),
    (DIED_BY_EXPIRY, RUNNING),
    (b.canceled(), [*WAITING, *RUNNING]),
    (b.requeued(), DEAD),
    (b.erased(errors=(3, 5)), DEAD[:1]),
    (b.erased(), DEAD[1:]),
    (b.retired(errors=(3, 5)), DEAD[:1]),
    (b.key_forgotten(), DEAD),
]
"""Events, and pasts that they may come after."""


def error_after(cell: str, before: Job | None, past: int, event: Event) -> tuple[ContentRef | None, Lapse | None]:
    """A job's error, stored or following from a lease, as a cell says it; `past` counts the events before."""
    error = getattr(event, "error", None)
    workers = None if error is None else ContentRef(past + 1, error.size)
    lapse = None if before is None or before.lease is None else Lapse(before.lease.worker, before.lease.expires_at)
    return {
        "": lambda: (before.error, before.lapse),
        "null": lambda: (None, None),
        "`lease_expired`": lambda: (None, lapse),
        "the worker's": lambda: (workers, None),
        "the worker's, or `lease_expired`": lambda: (None, lapse) if workers is None else (workers, None),
        "null if erased": lambda: (None, before.lapse),
    }[cell]()


def test_every_event_is_in_the_table_of_effects():
    """The document's rows are the events there are, and each is tried here."""
    assert set(EFFECTS) == set(EVENT_TYPES) == {event.type for event, _ in HAPPENINGS}


@pytest.mark.parametrize(
    ("event", "past"),
    [(event, past) for event, pasts in HAPPENINGS for past in pasts],
    ids=lambda value: getattr(value, "type", ""),
)
def test_an_event_leaves_the_error_that_the_document_says(event, past):
    """The last thing that went wrong stays until something else does, or it is erased; state and counts likewise."""
    before, after = given(*past).job, given(*past, event).job
    state, attempts, _, lease, token, error, _ = EFFECTS[event.type]
    assert (after.error, after.lapse) == error_after(error, before, len(past), event)
    assert after.state == (state or before.state)
    counts = [(0, 0) if before is None else (before.attempts, before.lease_token), (after.attempts, after.lease_token)]
    for cell, was, met in zip((attempts, token), *counts, strict=True):
        assert met == {"": was, "0": 0, "+1": was + 1, "−1": was - 1}[cell]
    assert (after.lease is None) == (lease == "none" or (not lease and before.lease is None))
