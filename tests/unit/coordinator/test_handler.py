"""The handler: load, decide, append, in one transaction; what a request asks for is done as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eventjobs.coordinator import handler as handler_module
from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import ANSWER_JOB_BYTES, Handler
from eventjobs.coordinator.replies import BatchRejected
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.job import State
from eventjobs.domain.limits import LEASE_REQUEST_MEMORY_SECONDS
from eventjobs.domain.rejections import Code
from eventjobs.domain.value import changed
from eventjobs.projections import READ_MODELS
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b


class Desk:
    """A memory engine and a handler for each step."""

    def __init__(self) -> None:
        self.engine = MemoryEngine(READ_MODELS)
        self.effects = Effects()

    @contextmanager
    def handler(self, room: bool = True) -> Iterator[Handler]:
        self.effects = Effects()
        yield Handler(self.engine.begin(), self.effects, lambda size: room)
        self.engine.commit()

    def enqueue(self, *commands, room=True):
        with self.handler(room) as handler:
            return handler.enqueue(commands)

    def lease(self, max_jobs=1, queues=None, kinds=None, **members):
        with self.handler() as handler:
            return handler.lease(b.lease(**members), queues, kinds, max_jobs).jobs

    def execute(self, *commands):
        with self.handler() as handler:
            return handler.execute(commands)

    def expire(self, now, limit=100):
        with self.handler() as handler:
            return handler.expire(now, limit)

    def records(self):
        with self.engine.read() as reader:
            return reader.records(0, 10_000)

    def job(self, number=1):
        with self.engine.read() as reader:
            return reader.job(b.an_id(number))


@pytest.fixture
def desk() -> Desk:
    return Desk()


def some(count, first=1, **members):
    return [b.enqueue(b.an_id(number), **members) for number in range(first, first + count)]


# Enqueue ------------------------------------------------------------------------------------------------------------


def test_a_batch_is_enqueued_in_its_order(desk):
    """Each job of a batch is created, in order, at one time."""
    replies = desk.enqueue(*some(3))
    assert [(reply.job.id, reply.created) for reply in replies] == [(b.an_id(number), True) for number in (1, 2, 3)]
    assert [record.job_id for record in desk.records()] == [b.an_id(number) for number in (1, 2, 3)]


def test_an_empty_batch_does_nothing(desk):
    """No jobs, no records."""
    assert desk.enqueue() == []
    assert desk.records() == []


def test_a_known_key_yields_its_job_as_it_stands(desk):
    """A repeated request is answered with the job, whatever has become of it, and appends nothing."""
    desk.enqueue(b.enqueue(idempotency_key="key"))
    (leased,) = desk.lease()
    (reply,) = desk.enqueue(b.enqueue(b.an_id(2), idempotency_key="key", now=b.at(20)))
    assert not reply.created and reply.job == leased
    assert len(desk.records()) == 2


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_conflict_refuses_the_whole_batch(desk, place):
    """A key that belongs to another request names its item and its job; nothing of the batch is in the log."""
    desk.enqueue(b.enqueue(idempotency_key="key"))
    batch = some(2, first=2)
    batch.insert(place, b.enqueue(b.an_id(9), idempotency_key="key", kind="other"))
    reply = desk.enqueue(*batch)
    assert isinstance(reply, BatchRejected)
    assert (reply.index, reply.rejection.code) == (place, Code.IDEMPOTENCY_KEY_REUSED)
    assert reply.rejection.job == desk.job(1)
    assert len(desk.records()) == 1


def test_a_key_twice_in_one_batch_is_one_job(desk):
    """The same request twice in a batch creates one job, and both items are answered with it."""
    replies = desk.enqueue(
        b.enqueue(b.an_id(1), idempotency_key="key"),
        b.enqueue(b.an_id(2)),
        b.enqueue(b.an_id(3), idempotency_key="key"),
    )
    assert [(reply.job.id, reply.created) for reply in replies] == [
        (b.an_id(1), True),
        (b.an_id(2), True),
        (b.an_id(1), False),
    ]
    assert len(desk.records()) == 2


def test_a_key_twice_in_one_batch_for_different_requests_refuses_it(desk):
    """A conflict within the batch names the second item; there is no job to show, and nothing is in the log."""
    reply = desk.enqueue(
        b.enqueue(b.an_id(1), idempotency_key="key"),
        b.enqueue(b.an_id(2), idempotency_key="key", priority=5),
    )
    assert (reply.index, reply.rejection.code, reply.rejection.job) == (1, Code.IDEMPOTENCY_KEY_REUSED, None)
    assert desk.records() == []


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{"a": 1}', '{"a":1}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ("null", None, False),
        (None, None, True),
    ],
)
def test_payloads_are_compared_by_text_within_a_batch_too(desk, first, second, same):
    """What counts as the same request is the same within a batch and across two."""
    first, second = (None if text is None else b.content(text) for text in (first, second))
    reply = desk.enqueue(
        b.enqueue(b.an_id(1), idempotency_key="key", payload=first),
        b.enqueue(b.an_id(2), idempotency_key="key", payload=second),
    )
    assert isinstance(reply, list) is same


def test_without_room_only_what_adds_nothing_is_answered(desk):
    """A known key is answered by a full store; a new job is refused, and with it the whole batch."""
    known = b.enqueue(idempotency_key="key")
    desk.enqueue(known)
    (reply,) = desk.enqueue(known, room=False)
    assert not reply.created
    refusal = desk.enqueue(known, b.enqueue(b.an_id(2)), room=False)
    assert (refusal.index, refusal.rejection.code) == (1, Code.STORAGE_FULL)
    assert len(desk.records()) == 1


def test_without_room_a_reused_key_is_refused_as_such(desk):
    """The conflict of an earlier item is told before the lack of room for a later one."""
    desk.enqueue(b.enqueue(idempotency_key="key"))
    conflict = b.enqueue(b.an_id(2), idempotency_key="key", kind="other")
    refusal = desk.enqueue(conflict, b.enqueue(b.an_id(3)), room=False)
    assert (refusal.index, refusal.rejection.code) == (0, Code.IDEMPOTENCY_KEY_REUSED)


def test_room_is_asked_for_all_new_jobs_of_the_transaction(desk):
    """Each request is weighed with those before it in the same commit, contents and all; what adds nothing is not."""
    desk.enqueue(b.enqueue(b.an_id(99), idempotency_key="key"))
    asked = []
    handler = Handler(desk.engine.begin(), Effects(), lambda size: asked.append(size) or size < 30_000)
    known = b.enqueue(b.an_id(98), idempotency_key="key")
    big = b.content('"' + "x" * 10_000 + '"')
    assert len(handler.enqueue([known])) == 1 and asked == []
    assert len(handler.enqueue([b.enqueue(b.an_id(1), payload=big)])) == 1
    assert len(handler.enqueue([b.enqueue(b.an_id(2), payload=None), known])) == 2
    refused = handler.enqueue([b.enqueue(b.an_id(3), payload=big), b.enqueue(b.an_id(4), payload=big)])
    assert refused.rejection.code is Code.STORAGE_FULL
    assert len(handler.enqueue([b.enqueue(b.an_id(5), payload=big)])) == 1, "a refused request takes no room"
    assert asked == sorted(asked[:3]) + asked[3:] and 10_000 < asked[0] < asked[1] < asked[3] < 30_000 < asked[2]
    desk.engine.abort()


# Time and actors ----------------------------------------------------------------------------------------------------


def test_a_command_that_was_overtaken_happens_at_the_logs_time(desk):
    """A command made before the newest record, and come to its turn after it, takes that record's time."""
    desk.enqueue(b.enqueue(now=b.at(10)))
    desk.enqueue(b.enqueue(b.an_id(2), now=b.at(5), delay=b.seconds(60)))
    assert desk.job(2).run_at == b.at(70)
    (job,) = desk.lease(now=b.at(3), duration=b.seconds(30))
    assert job.lease.expires_at == b.at(40)
    desk.execute(b.complete(job.id, now=b.at(0)))
    assert [record.time for record in desk.records()] == [b.at(10)] * 4


def test_a_command_that_was_not_overtaken_keeps_its_time(desk):
    """Later commands are recorded at their own times."""
    desk.enqueue(b.enqueue(now=b.at(10)))
    desk.lease(now=b.at(11.5))
    assert [record.time for record in desk.records()] == [b.at(10), b.at(11.5)]


def test_a_worker_that_shows_its_token_alone_is_named_by_its_lease(desk):
    """An actor without a name is the lease's owner; one with a name keeps it."""
    desk.enqueue(*some(2))
    for job in desk.lease(max_jobs=2, worker="the owner"):
        actor = Actor(ActorType.WORKER, "" if job.id == b.an_id(1) else "named")
        desk.execute(changed(b.complete(job.id), actor=actor))
    assert [record.actor for record in desk.records()][-2:] == [
        Actor(ActorType.WORKER, "the owner"),
        Actor(ActorType.WORKER, "named"),
    ]


def test_an_operator_without_a_name_stays_without(desk):
    """Only a worker's name is known from the lease."""
    desk.enqueue(b.enqueue())
    desk.lease()
    desk.execute(changed(b.cancel(), actor=Actor(ActorType.OPERATOR, "")))
    assert desk.records()[-1].actor == Actor(ActorType.OPERATOR, "")


# Lease --------------------------------------------------------------------------------------------------------------


def test_a_repeated_lease_request_gets_what_it_still_holds(desk):
    """The same grants while they are held, fewer when some are over, none in the end, and never others."""
    desk.enqueue(*some(6))
    first = desk.lease(max_jobs=3, request_id="r")
    assert desk.lease(max_jobs=3, request_id="r") == first
    desk.execute(b.complete(first[0].id))
    desk.execute(b.release(first[1].id))
    assert desk.lease(max_jobs=3, request_id="r") == first[2:]
    desk.execute(b.cancel(first[2].id))
    assert desk.lease(max_jobs=3, request_id="r") == []
    assert desk.job(4).state is State.QUEUED


def test_a_grant_that_was_leased_anew_is_not_the_requests(desk):
    """A job that came back and was leased under another token does not belong to the old request."""
    desk.enqueue(b.enqueue())
    (job,) = desk.lease(request_id="r")
    desk.execute(b.release(job.id))
    (again,) = desk.lease(request_id="s")
    assert again.id == job.id
    assert desk.lease(request_id="r") == []


def test_a_renewed_grant_is_shown_as_it_stands(desk):
    """A repeated request shows the expiry of now."""
    desk.enqueue(b.enqueue())
    (job,) = desk.lease(request_id="r")
    desk.execute(b.renew(job.id, duration=b.seconds(600)))
    (again,) = desk.lease(request_id="r")
    assert again.lease.expires_at == b.at(610)


def test_requests_of_two_workers_are_two_requests(desk):
    """A request id belongs to its worker."""
    desk.enqueue(*some(2))
    (one,) = desk.lease(worker="one", request_id="r")
    (two,) = desk.lease(worker="two", request_id="r")
    assert one.id != two.id


def test_an_answer_that_granted_nothing_is_not_remembered(desk):
    """The same request finds what has come since."""
    assert desk.lease(request_id="r") == []
    desk.enqueue(b.enqueue())
    assert len(desk.lease(request_id="r")) == 1


def test_a_request_is_forgotten_after_a_day(desk):
    """A day after its grants the request is a new one."""
    desk.enqueue(*some(2))
    (first,) = desk.lease(request_id="r")
    (second,) = desk.lease(request_id="r", now=b.NOW + b.seconds(LEASE_REQUEST_MEMORY_SECONDS))
    assert second.id != first.id


def test_a_lease_without_jobs_asked_for_leaves_no_trace(desk):
    """Nothing available is no event."""
    desk.enqueue(b.enqueue(run_at=b.at(100)))
    assert desk.lease() == []
    assert len(desk.records()) == 1


def test_an_answer_is_bounded_in_bytes(desk, monkeypatch):
    """When the payloads would pass the bound, fewer jobs are leased, but one at least; the others keep waiting."""
    monkeypatch.setattr(handler_module, "ANSWER_BYTES_MAX", 10_000 + 3 * ANSWER_JOB_BYTES)
    desk.enqueue(*some(3, payload=b.content('"' + "x" * 4_998 + '"')))
    desk.enqueue(*some(1, first=4, payload=b.content('"' + "x" * 100_000 + '"')))
    assert [job.id for job in desk.lease(max_jobs=10)] == [b.an_id(1), b.an_id(2)]
    assert [job.id for job in desk.lease(max_jobs=10)] == [b.an_id(3)]
    assert [job.id for job in desk.lease(max_jobs=10)] == [b.an_id(4)]


def test_the_last_errors_count_as_bytes_of_an_answer(desk, monkeypatch):
    """A job that failed brings its error along, which counts as its payload does."""
    monkeypatch.setattr(handler_module, "ANSWER_BYTES_MAX", 10_000 + 3 * ANSWER_JOB_BYTES)
    error = b.content('{"type": "E", "message": "' + "x" * 5_000 + '"}')
    desk.enqueue(*some(3, payload=None))
    for job in desk.lease(max_jobs=3):
        desk.execute(b.fail(job.id, error=error, delay=0))
    assert len(desk.lease(max_jobs=10)) == 2


# Execute ------------------------------------------------------------------------------------------------------------


def test_commands_are_decided_one_after_the_other(desk):
    """Each has its own outcome, in order; the same job twice is decided on what the first has made of it."""
    desk.enqueue(*some(2))
    desk.lease(max_jobs=2)
    outcomes = desk.execute(
        b.complete(b.an_id(1)),
        b.complete(b.an_id(1)),
        b.fail(b.an_id(1)),
        b.complete(b.an_id(7)),
        b.complete(b.an_id(2), token=2),
        b.release(b.an_id(2)),
    )
    assert outcomes[0] == outcomes[1] and outcomes[0].state is State.SUCCEEDED
    assert [getattr(outcome, "code", None) for outcome in outcomes] == [
        None, None, Code.STALE_TOKEN, Code.JOB_NOT_FOUND, Code.STALE_TOKEN, None,
    ]  # fmt: skip
    assert outcomes[5].state is State.QUEUED
    assert len(desk.records()) == 6
    assert [rejection.code for _, rejection in desk.effects.refused] == [
        Code.STALE_TOKEN, Code.JOB_NOT_FOUND, Code.STALE_TOKEN,
    ]  # fmt: skip


def test_an_unchanged_command_stores_no_content(desk):
    """A repeated completion with another result neither changes nor stores it."""
    desk.enqueue(b.enqueue())
    desk.lease()
    (done,) = desk.execute(b.complete(result=b.content('"first"')))
    (again,) = desk.execute(b.complete(result=b.content('"second"')))
    assert again == done
    with desk.engine.read() as reader:
        assert reader.content(done.result) == b'"first"'


# Expire -------------------------------------------------------------------------------------------------------------


def test_leases_that_ran_out_are_ended_oldest_first_and_in_bounded_number(desk):
    """A sweep takes as many as it may, those that ran out first, and none that still runs."""
    desk.enqueue(*some(4))
    for number, duration in ((1, 30), (2, 10), (3, 20), (4, 90)):
        desk.lease(duration=b.seconds(duration))
        assert desk.job(number).lease is not None
    assert desk.expire(b.at(50), limit=2) == 2
    assert [record.job_id for record in desk.records()][-2:] == [b.an_id(2), b.an_id(3)]
    assert desk.expire(b.at(50), limit=2) == 1
    assert desk.expire(b.at(50), limit=2) == 0
    assert desk.job(4).state is State.RUNNING


def test_a_sweep_that_was_overtaken_ends_what_ran_out_by_the_logs_time(desk):
    """A sweep whose time lies before the newest record goes by that record's time."""
    desk.enqueue(b.enqueue())
    desk.lease(now=b.at(0), duration=b.seconds(10))
    desk.enqueue(b.enqueue(b.an_id(2), now=b.at(10)))
    assert desk.expire(b.at(5)) == 1
    assert desk.records()[-1].time == b.at(10)


def test_the_last_attempt_that_runs_out_is_a_death(desk):
    """Without attempts left the expiry is one event, the death."""
    desk.enqueue(b.enqueue(max_attempts=1))
    desk.lease()
    desk.expire(b.at(100))
    assert [record.event.type for record in desk.records()] == ["job_enqueued", "job_leased", "job_died"]


# Effects ------------------------------------------------------------------------------------------------------------


def test_effects_tell_what_became_available(desk):
    """By lane: jobs enqueued, retried at once, released, expired and requeued; not those that must wait."""
    lane = ("default", "email")
    desk.enqueue(*some(2), *some(1, first=3, queue="other"), *some(1, first=4, run_at=b.at(500)))
    assert desk.effects.available == {lane: 2, ("other", "email"): 1}
    assert (desk.effects.next_due, desk.effects.next_expiry) == (b.at(500), None)
    desk.lease(queues=["default"], max_jobs=2)
    assert (desk.effects.available, desk.effects.next_expiry) == ({}, b.at(40))
    desk.execute(b.release(b.an_id(1)), b.fail(b.an_id(2), delay=0))
    assert desk.effects.available == {lane: 2}
    desk.lease(queues=["default"], max_jobs=2)
    desk.execute(b.fail(b.an_id(1), token=2, delay=b.seconds(7)))
    assert (desk.effects.available, desk.effects.next_due) == ({}, b.at(17))
    desk.expire(b.at(50))
    assert desk.effects.available == {lane: 1}
    desk.lease(queues=["default"], now=b.at(50))
    desk.execute(b.fail(b.an_id(1), token=3, retry=False, now=b.at(50)))
    assert desk.effects.available == {}
    desk.execute(b.requeue(b.an_id(1), now=b.at(50)))
    assert desk.effects.available == {lane: 1}


def test_effects_tell_the_earliest_times(desk):
    """Of several times in one commit the earliest is told."""
    desk.enqueue(*(b.enqueue(b.an_id(number), run_at=b.at(time)) for number, time in ((1, 50), (2, 20), (3, 90))))
    assert desk.effects.next_due == b.at(20)
    desk.lease(now=b.at(100), max_jobs=3, duration=b.seconds(60))
    desk.execute(
        b.renew(b.an_id(1), duration=b.seconds(90), now=b.at(100)),
        b.renew(b.an_id(2), duration=b.seconds(70), now=b.at(100)),
    )
    assert desk.effects.next_expiry == b.at(170)
