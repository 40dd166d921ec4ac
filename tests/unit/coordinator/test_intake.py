"""The intake's steps: what waits is taken in until nothing does, and one bad request stops nobody else."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from eventjobs.coordinator.intake import Intake
from eventjobs.coordinator.replies import Settled, StoreAway, Unavailable, UnknownOutcome
from eventjobs.domain.intake import Asked, NotEnqueued
from eventjobs.testing import builders as b


def asked(number: int) -> Asked:
    return Asked(number, b.an_id(number), False, b'{"kind":"k"}', "shop", number)


class Store:
    """An intake in memory. `fails` are numbers whose handling raises; `errors` meet the next steps; what is `busy` is
    in another coordinator's hands."""

    def __init__(self, numbers) -> None:
        self.waiting = [asked(number) for number in numbers]
        self.steps: list[list[int]] = []
        self.fails: set[int] = set()
        self.errors: list[Exception] = []
        self.busy = False
        self.refused: dict[int, NotEnqueued] = {}
        self.step = 3

    async def look(self, question):
        return question(self)

    def asked(self, limit, size):
        return self.waiting[: self.step]

    async def write(self, work, size, needs):
        if self.errors:
            raise self.errors.pop(0)
        self.steps.append([number for number, _ in needs.asked])
        return work(self)

    def take_in(self, requests):
        for each, command in requests:
            if each.number in self.fails and not isinstance(command, NotEnqueued):
                raise ValueError("it is broken\0 \ud800")
        if self.busy:
            return []
        for each, command in requests:
            self.waiting.remove(each)
            if isinstance(command, NotEnqueued):
                self.refused[each.number] = command
        return [Settled(each, self.refused.get(each.number)) for each, _ in requests]


def command_of(each: Asked):
    return b.enqueue(each.job_id) if each.number < 90 else NotEnqueued("invalid_request", "kind: must be")


async def run(store: Store) -> Intake:
    intake = Intake(store.look, store.write, command_of)
    intake.begin()
    intake.begin()
    await asyncio.wait_for(intake._task, 5)
    return intake


async def test_all_that_waits_is_taken_in_by_steps():
    """Until nothing is left, and once at a time however often it is begun."""
    store = Store(range(1, 8))
    intake = await run(store)
    assert store.steps == [[1, 2, 3], [4, 5, 6], [7]]
    assert (intake.taken, intake.refused) == (7, 0)


async def test_what_is_refused_is_counted_and_logged():
    """The line says which, by whom, and why."""
    store = Store([1, 90])
    with capture_logs() as lines:
        intake = await run(store)
    assert (intake.taken, intake.refused) == (1, 1)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("not_enqueued", "warning")
    assert (line["number"], line["actor"], line["code"]) == (90, "shop", "invalid_request")


async def test_a_request_that_cannot_be_handled_is_set_aside_alone():
    """Those beside it are taken in, and it is kept with the reason."""
    store = Store(range(1, 6))
    store.fails = {2}
    with capture_logs():
        intake = await run(store)
    assert store.waiting == [] and store.refused.keys() == {2}
    assert store.refused[2].code == "failed" and store.refused[2].reason.endswith("it is broken\\x00 \\ud800")
    assert (intake.taken, intake.refused) == (4, 1)


@pytest.mark.parametrize("error", [StoreAway("gone"), Unavailable("overloaded", "later"), UnknownOutcome("who knows")])
async def test_what_cannot_be_written_now_waits_for_the_next_look(error):
    """Nothing is set aside for a failure of the surroundings."""
    store = Store(range(1, 5))
    store.errors = [error]
    with capture_logs() as lines:
        intake = await run(store)
    assert len(store.waiting) == 4 and store.refused == {} and lines[0]["event"] == "intake_put_off"
    intake.begin()
    await asyncio.wait_for(intake._task, 5)
    assert store.waiting == []


async def test_what_another_coordinator_has_in_hand_is_left_to_it():
    """It does not ask again and again: the next look will tell."""
    store = Store([1, 2])
    store.busy = True
    await run(store)
    assert store.steps == [[1, 2]] and len(store.waiting) == 2


async def test_stopping_ends_it():
    """In the middle of a step as well."""
    store = Store([1])
    store.write = lambda *_: asyncio.Event().wait()
    intake = Intake(store.look, store.write, command_of)
    intake.begin()
    await asyncio.sleep(0)
    await intake.stop()
    assert intake._task.cancelled()
