"""Jobs, events and heads look as the wire contract says; stored texts are spliced in unchanged."""

from __future__ import annotations

import msgspec
import orjson
import pytest

from eventjobs.api.render import new_job, policy_text, stored_job, stored_jobs
from eventjobs.api.render_events import event_text, head_document
from eventjobs.domain.commands import COORDINATOR
from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.evolve import evolve
from eventjobs.domain.job import DeathCause
from eventjobs.domain.retry import Constant
from eventjobs.store.contract import Head
from eventjobs.testing import builders as b
from eventjobs.testing.builders import JOB_ID, PRODUCER_ACTOR, at, seconds

QUEUED = {
    "id": JOB_ID,
    "kind": "email",
    "queue": "default",
    "priority": 0,
    "payload": {"n": 1},
    "state": "queued",
    "attempts": 0,
    "max_attempts": 5,
    "retry_policy": {"type": "exponential", "base": 1, "max_delay": 300, "jitter": 0.5},
    "run_at": "2026-01-01T00:00:00.000000Z",
    "lease_owner": None,
    "lease_expires_at": None,
    "lease_token": 0,
    "result": None,
    "error": None,
    "idempotency_key": None,
    "created_at": "2026-01-01T00:00:00.000000Z",
    "updated_at": "2026-01-01T00:00:00.000000Z",
    "finished_at": None,
}
AFTER_ONE_SECOND = "2026-01-01T00:00:01.000000Z"
AFTER_TWO_SECONDS = "2026-01-01T00:00:02.000000Z"


class Contents(dict):
    """A view that has contents by position, and nothing else."""

    def content(self, ref):
        return self[ref.position]

    def contents(self, refs):
        return {ref.position: self[ref.position] for ref in refs}


def job_after(*events):
    """The fold of events recorded a second apart from START."""
    job = None
    for version, event in enumerate(events, start=1):
        job = evolve(job, Record(version, JOB_ID, version, at(version - 1), PRODUCER_ACTOR, event))
    return job


def shown(*events, **contents: bytes) -> dict:
    """The job after the events, through JSON and back."""
    held = Contents({int(place[1:]): text for place, text in contents.items()})
    return orjson.loads(orjson.dumps(stored_job(held, job_after(*events))))


def test_a_queued_job_shows_every_field():
    """Nineteen fields, those without a value null."""
    assert shown(b.enqueued(), _1=b'{"n":1}') == QUEUED
    assert orjson.loads(orjson.dumps(new_job(job_after(b.enqueued()), b'{"n":1}'))) == QUEUED


def test_a_running_job_shows_its_lease():
    """Owner and expiry while it runs; the token stays when they are gone."""
    running = shown(b.enqueued(payload=None), b.leased())
    assert running == QUEUED | {
        "payload": None,
        "state": "running",
        "attempts": 1,
        "lease_owner": "worker-1",
        "lease_expires_at": "2026-01-01T00:00:30.000000Z",
        "lease_token": 1,
        "updated_at": AFTER_ONE_SECOND,
    }
    done = shown(b.enqueued(), b.leased(), b.completed(), _1=b"1", _3=b'"done"')
    assert (done["lease_owner"], done["lease_expires_at"], done["lease_token"]) == (None, None, 1)
    assert (done["result"], done["finished_at"], done["updated_at"]) == ("done", AFTER_TWO_SECONDS, AFTER_TWO_SECONDS)


@pytest.mark.parametrize("text", [b"1.0", b"12345678901234567890123", b'{"b": 1, "a":[ ]}', b'"\\u00e9"'])
def test_stored_texts_are_spliced_in(text):
    """Payload, result and error leave byte for byte as they lie in the store."""
    events = (b.enqueued(), b.leased(), b.failed(), b.leased(token=2, attempt=2), b.completed(token=2, attempt=2))
    answer = orjson.dumps(stored_job(Contents({1: text, 3: text, 5: text}), job_after(*events)))
    for field in (b"payload", b"result", b"error"):
        assert b'"%s":%s,' % (field, text) in answer


def test_several_jobs_are_shown_as_each_alone():
    """Each with its own contents, and those that have none."""
    histories = (
        (b.enqueued(), b.leased(), b.failed(), b.leased(token=2, attempt=2), b.completed(token=2, attempt=2)),
        (b.enqueued(), b.leased(), b.failed()),
        (b.enqueued(payload=None), b.leased(), b.expired()),
    )
    view, jobs = Contents({1: b"1", 3: b'"three"', 5: b"5"}), [job_after(*events) for events in histories]
    assert orjson.dumps(stored_jobs(view, jobs)) == orjson.dumps([stored_job(view, job) for job in jobs])
    assert stored_jobs(view, []) == []


def test_a_lapsed_lease_is_an_error_that_names_the_worker():
    """Its type is stable, its words say who held the job until when."""
    died = b.died(cause=DeathCause.LEASE_EXPIRED, error=None)
    for last in (b.expired(), died):
        error = shown(b.enqueued(), b.leased(worker='a"b'), last, _1=b"1")["error"]
        assert error["type"] == "lease_expired"
        assert 'a"b' in error["message"]
        assert "2026-01-01T00:00:30.000000Z" in error["message"]


def test_a_policy_shows_all_its_fields():
    """Numbers as they were sent, and nothing that is not its own."""
    assert shown(b.enqueued(retry_policy=Constant(2.0)), _1=b"1")["retry_policy"] == {"type": "constant", "base": 2.0}


EVENTS = [
    (
        b.enqueued(asked_delay=seconds(1.5), idempotency_key="k"),
        {
            "kind": "email",
            "queue": "default",
            "priority": 0,
            "max_attempts": 5,
            "retry_policy": QUEUED["retry_policy"],
            "idempotency_key": "k",
            "asked_run_at": None,
            "asked_delay_seconds": 1.5,
            "run_at": "2026-01-01T00:00:00.000000Z",
            "payload": msgspec.structs.asdict(b.PAYLOAD.digest()),
        },
    ),
    (
        b.leased(request_id="r"),
        {
            "worker": "worker-1",
            "token": 1,
            "attempt": 1,
            "expires_at": "2026-01-01T00:00:30.000000Z",
            "duration_seconds": 30,
            "request_id": "r",
        },
    ),
    (b.renewed(), {"token": 1, "expires_at": "2026-01-01T00:00:40.000000Z"}),
    (b.released(), {"token": 1, "run_at": "2026-01-01T00:00:10.000000Z"}),
    (b.expired(), {"token": 1, "attempt": 1, "run_at": "2026-01-01T00:00:10.000000Z"}),
    (b.completed(), {"token": 1, "attempt": 1, "result": msgspec.structs.asdict(b.RESULT.digest())}),
    (b.completed(result=None), {"token": 1, "attempt": 1, "result": None}),
    (
        b.failed(),
        {
            "token": 1,
            "attempt": 1,
            "run_at": "2026-01-01T00:00:11.000000Z",
            "error": msgspec.structs.asdict(b.ERROR.digest()),
        },
    ),
    (
        b.died(),
        {"cause": "attempts_exhausted", "token": 1, "attempt": 1, "error": msgspec.structs.asdict(b.ERROR.digest())},
    ),
    (b.canceled(reason="no"), {"reason": "no"}),
    (b.requeued(), {"run_at": "2026-01-01T00:00:10.000000Z"}),
    (
        b.erased(result=3, errors=(5,), reason="no"),
        {"payload_position": 1, "result_position": 3, "error_positions": [5], "reason": "no"},
    ),
    (
        b.retired(rule="succeeded 3d"),
        {"payload_position": 1, "result_position": None, "error_positions": [], "rule": "succeeded 3d"},
    ),
    (b.key_forgotten(rule="keys 30d"), {"rule": "keys 30d"}),
]


@pytest.mark.parametrize(("event", "data"), EVENTS, ids=[event.type for event, _ in EVENTS])
def test_events_show_times_durations_and_digests(event, data):
    """Times are text, durations seconds, contents size and digest; everything else is as it is."""
    assert orjson.loads(event_text(Record(7, JOB_ID, 3, at(1), COORDINATOR, event))) == {
        "position": 7,
        "job_id": JOB_ID,
        "version": 3,
        "type": event.type,
        "format_version": 1,
        "time": AFTER_ONE_SECOND,
        "actor": {"type": "coordinator", "id": "rescuer"},
        "data": data,
    }


def test_every_event_is_tried():
    """An event that is added gets a line above."""
    assert {type(event) for event, _ in EVENTS} == set(EVENT_TYPES.values())


def test_a_head_is_size_and_root():
    """The root in standard base64."""
    assert head_document(Head(3, bytes([255] * 32))) == {"size": 3, "root": "/" * 42 + "8="}


def test_numbers_of_a_policy_are_shown_as_they_were_sent():
    """Whatever equal numbers other jobs were shown with before."""
    numbers = (1.0, 1, 0.0, -0.0, 0)
    shown = [bytes(orjson.dumps(policy_text(Constant(base=number)))) for number in numbers]
    assert shown == [b'{"type":"constant","base":%s}' % text for text in (b"1.0", b"1", b"0.0", b"-0.0", b"0")]
