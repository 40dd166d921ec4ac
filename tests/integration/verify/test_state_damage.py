"""Damage beside the log, and records that were forged with everything that goes with them: each is named."""

from __future__ import annotations

import pytest

from eventjobs.domain import events as e
from eventjobs.domain.commands import COORDINATOR
from eventjobs.domain.content import Content
from eventjobs.domain.job import DeathCause
from eventjobs.domain.retry import Exponential
from eventjobs.domain.value import changed
from eventjobs.projections import READ_MODELS
from eventjobs.store.codec import UPCASTERS, decode_job, encode_job, encode_record
from eventjobs.store.indexes import INDEXES
from eventjobs.store.lmdb.tables import encode_progress
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver
from eventjobs.testing.past import JOBS
from eventjobs.tools.verify import fold
from eventjobs.tools.verify.report import Outcome, Report

PROJECTIONS = (*INDEXES, *READ_MODELS)
TABLES = [(projection, table) for projection in PROJECTIONS for table in projection.tables]
TABLE_IDS = [table.name for _, table in TABLES]


def faults(report: Report) -> dict[str, list[str]]:
    """The sorts of faults of each check that has some."""
    return {check.name: [each.sort for each in check.faults] for check in report.checks if check.faults}


def only_fault(report: Report, check: str, sort: str) -> str:
    """The text of the one fault there is, which must be of this check and sort."""
    assert report.outcome is Outcome.DAMAGED
    assert faults(report) == {check: [sort]}
    return next(each for each in report.checks if each.name == check).faults[0].text


# Contents ---------------------------------------------------------------------------------------------------------


def content_rows(store) -> dict[bytes, bytes]:
    with store.raw() as database:
        return database("contents").rows()


@pytest.mark.parametrize("place", [0, 4, 20, -1])
def test_a_flipped_bit_in_a_content(store, place):
    """In checksum, salt or text: found by the checksum, and named with what it is."""
    key = list(content_rows(store))[10]
    with store.raw() as database:
        database("contents").flip(key, place)
    report = store.verify()
    text = only_fault(report, "contents", "content_damaged")
    assert f"position {int.from_bytes(key)} fails its checksum" in text
    assert report.first_bad == int.from_bytes(key)


@pytest.mark.parametrize("change", [lambda v: v[:-1] + b"?", lambda v: v + b" ", lambda v: bytes(16) + v[16:]])
def test_a_content_altered_with_its_checksum(store, change):
    """Another text, a longer one, another salt: the record has the digest of the right one."""
    key, value = list(content_rows(store).items())[10]
    with store.raw() as database:
        database("contents").put(key, change(value))
    text = only_fault(store.verify(), "contents", "content_altered")
    assert text.endswith("is not the one recorded: altered, its checksum put right")


def test_contents_that_changed_places(store):
    """Each is whole, and neither is where it belongs."""
    rows = list(content_rows(store).items())
    with store.raw() as database:
        for (key, _), (_, value) in zip(rows[:2], rows[1::-1], strict=True):
            database("contents").put(key, value)
    assert faults(store.verify()) == {"contents": ["content_altered", "content_altered"]}


def test_a_missing_content(store):
    """It is no null, and nothing says that it was erased."""
    key = list(content_rows(store))[10]
    with store.raw() as database:
        database("contents").delete(key)
    report = store.verify()
    text = only_fault(report, "contents", "content_missing")
    assert text.endswith("is missing; no record says that it was erased")
    assert next(each for each in report.checks if each.name == "contents").facts.endswith(", 1 missing")


def test_a_content_that_should_be_gone(store):
    """Put back, whole and under its own checksum, after a record said that it was erased."""
    with store.engine() as engine, engine.read() as reader:
        jobs = [job for number in range(1, JOBS + 1) if (job := reader.job(b.an_id(number))) is not None]
    job = next(job for job in jobs if job.finished_at is not None and job.spec.payload is not None)
    rows = content_rows(store)
    with store.engine() as engine:
        Driver(engine).execute(b.erase(job.id, now=b.at(20_000)))
    key = job.spec.payload.position.to_bytes(8)
    assert key not in content_rows(store) and store.verify().outcome is Outcome.SOUND
    with store.raw() as database:
        database("contents").put(key, rows[key])
    text = only_fault(store.verify(), "contents", "content_not_erased")
    assert f"the content of position {job.spec.payload.position} was erased, but it was met there" in text


def test_a_content_that_nobody_brought(store):
    """Beside records that have none, and beyond the log."""
    rows = content_rows(store)
    size = store.head().size
    with store.engine() as engine, engine.read() as reader:
        bare = [record.position for record in reader.records(0, size) if isinstance(record.event, e.JobLeased)]
    free = next(place for place in bare if place.to_bytes(8) not in rows)
    with store.raw() as database:
        for position in (free, size + 5):
            database("contents").put(position.to_bytes(8), b"0123456789abcdef{}")
    report = store.verify()
    assert faults(report) == {"contents": ["content_stray", "content_stray"]}


# Rows of jobs, indexes and read models --------------------------------------------------------------------------------


@pytest.mark.parametrize(("projection", "table"), TABLES, ids=TABLE_IDS)
@pytest.mark.parametrize("harm", ["flip", "alter", "delete", "add"])
def test_a_row_that_was_touched(rich_store, projection, table, harm):
    """Whatever is done to one row of whichever table, it is named by its table and key, and nothing else is."""
    name = f"projection/{table.name}"
    with rich_store.raw() as database:
        hand = database(name)
        key, value = list(hand.rows().items())[-1]
        if harm == "flip":
            hand.flip(key)
        elif harm == "alter":
            hand.put(key, value[:-1] + bytes([value[-1] ^ 1]))
        elif harm == "delete":
            hand.delete(key)
        else:
            hand.put(bytes([key[0] ^ 0x55]) + key[1:], value)
    sort = {"flip": "row_damaged", "alter": "row_wrong", "delete": "row_missing", "add": "row_extra"}[harm]
    report = rich_store.verify()
    text = only_fault(report, projection.name, sort)
    assert text.startswith("the row of job " if table.name == "jobs" else f"{table.name}: the row (")
    assert report.first_bad is None


def test_a_job_row_that_was_altered_says_in_what(store):
    """The fields that differ, as stored and as the log has them."""
    job = store.job(3)
    with store.raw() as database:
        jobs = database("projection/jobs")
        key = next(key for key, row in jobs.rows().items() if decode_job(row).id == job.id)
        jobs.put(key, encode_job(changed(job, attempts=job.attempts + 1)))
    text = only_fault(store.verify(), "jobs", "row_wrong")
    told = f"attempts is {job.attempts + 1}, the log makes {job.attempts}"
    assert text == f"the row of job {job.id} is not what the log makes of it: {told}"


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)
@pytest.mark.parametrize("progress", ["none", "older", "behind", "newer"])
def test_tables_that_are_out_of_date(store, projection, progress):
    """They are no damage: the next start makes them anew, or a newer program made them. They are not compared."""
    key, size = f"projection:{projection.name}".encode(), store.head().size
    with store.raw() as database:
        if progress == "none":
            database("meta").delete(key)
        else:
            version = projection.version + {"older": -1, "behind": 0, "newer": 1}[progress]
            database("meta").put(key, encode_progress(version, size - (progress == "behind")))
        hand = database(f"projection/{projection.tables[0].name}")
        hand.delete(next(iter(hand.rows())))
    report = store.verify()
    assert (report.outcome, faults(report)) == (Outcome.UNCHECKED, {})
    assert [check.name for check in report.checks if check.unchecked] == [projection.name]


def test_a_damaged_progress_is_damage(store):
    """What a table claims to be made from cannot be guessed."""
    with store.raw() as database:
        database("meta").flip(b"projection:listing")
    only_fault(store.verify(), "listing", "progress_damaged")


def test_what_is_not_known_is_said(store):
    """A database that this version does not know is passed over, and that is said."""
    with store.raw() as database:
        database("projection/tomorrow").put(b"x", b"y")
    report = store.verify()
    assert report.outcome is Outcome.SOUND
    assert report.said == ["Not looked at, for it is not known here: projection/tomorrow."]


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)
def test_after_a_damaged_record_the_tables_are_not_blamed(store, projection):
    """What the fold lacks is not said to be wrong; but rows that fail their checksums are named all the same."""
    with store.raw() as database:
        database("log").flip((300).to_bytes(8))
    report = store.verify()
    assert faults(report) == {"records": ["record_damaged"]}
    with store.raw() as database:
        hand = database(f"projection/{projection.tables[0].name}")
        hand.flip(next(iter(hand.rows())))
    assert faults(store.verify())[projection.name] == ["row_damaged"]


def test_jobs_that_a_damaged_record_did_not_touch_are_compared(store):
    """A row that was altered is named although the log cannot be followed everywhere."""
    with store.raw() as database:
        database("log").flip((300).to_bytes(8))
        hand = database("projection/jobs")
        key, row = next(iter(hand.rows().items()))
        job = decode_job(row)
        hand.put(key, encode_job(changed(job, run_at=job.run_at + 1)))
    assert faults(store.verify()) == {"records": ["record_damaged"], "jobs": ["row_wrong"]}


# Records that were forged with checksum, tree and tables --------------------------------------------------------------


@pytest.fixture
def story(new_store):
    """Five jobs: running (its second lease), waiting, dead, succeeded, failed; the clock stands at 200."""
    store = new_store("story", jobs=0)
    with store.engine() as engine:
        driver = Driver(engine)
        keys = {b.an_id(number): f"k{number}" for number in range(1, 6)}
        driver.execute(*[b.enqueue(job_id, max_attempts=2, idempotency_key=key) for job_id, key in keys.items()])
        for job in driver.lease(b.lease(now=b.at(10)), limit=5):
            driver.execute(
                *{
                    1: [b.release(job.id, now=b.at(20))],
                    2: [b.release(job.id, now=b.at(20))],
                    3: [b.fail(job.id, retry=False, now=b.at(20))],
                    4: [b.complete(job.id, now=b.at(20))],
                    5: [b.fail(job.id, now=b.at(20))],
                }[int(job.id[-1])]
            )
        driver.lease(b.lease(now=b.at(200), duration=b.seconds(60)))
    assert store.verify().outcome is Outcome.SOUND
    return store


RUNNING, WAITING, DEAD, SUCCEEDED, FAILED, NEW = range(1, 7)
ERROR = b.ERROR.digest()

FORGED = {
    "a completion with a stale token": (RUNNING, b.completed(token=1), "token 1 is not the job's current token 2"),
    "a completion with a token of the future": (RUNNING, b.completed(token=3), "is not the job's current token"),
    "a completion of the wrong attempt": (RUNNING, b.completed(token=2, attempt=2), "what would have been recorded is"),
    "a completion of a job that nobody has": (WAITING, b.completed(token=1), "stale_token"),
    "a second completion": (SUCCEEDED, b.completed(token=1), "had had its effect before"),
    "a failure with a stale token": (RUNNING, b.failed(token=1, run_at=b.at(300)), "stale_token"),
    "a failure into the past": (RUNNING, b.failed(token=2, run_at=b.at(100)), "no retry waits that long"),
    "a failure for ever": (RUNNING, b.failed(token=2, run_at=b.at(2e6)), "no retry waits that long"),
    "a retry without attempts": (FAILED, b.leased(token=9, attempt=2), "what would have been recorded is"),
    "a lease of a running job": (RUNNING, b.leased(token=3, attempt=2), "not_available"),
    "a lease under an old token": (WAITING, b.leased(token=1, attempt=1, expires_at=b.at(230)), "would have been"),
    "a lease without end": (
        WAITING,
        b.leased(token=2, attempt=1, expires_at=b.at(1e6), duration=b.seconds(1e6 - 201)),
        "no lease is that long",
    ),
    "a renewal with a stale token": (RUNNING, b.renewed(token=1, expires_at=b.at(270)), "stale_token"),
    "a renewal backwards": (RUNNING, b.renewed(token=2, expires_at=b.at(240)), "what would have been recorded is"),
    "a renewal without end": (RUNNING, b.renewed(token=2, expires_at=b.at(1e6)), "no lease is that long"),
    "an expiry before its time": (RUNNING, b.expired(token=2, run_at=b.at(201)), "not_expired"),
    "a release with a stale token": (RUNNING, b.released(token=1, run_at=b.at(201)), "stale_token"),
    "a release into the future": (RUNNING, b.released(token=2, run_at=b.at(999)), "what would have been recorded is"),
    "a death with attempts left": (RUNNING, b.died(token=2, attempt=1), "what would have been recorded is"),
    "a death without an error": (
        RUNNING, b.died(cause=DeathCause.NOT_RETRYABLE, token=2, error=None), "a failure brings an error",
    ),
    "a cancellation of a job that succeeded": (SUCCEEDED, b.canceled(), "illegal_transition"),
    "a requeue of a job that waits": (WAITING, b.requeued(run_at=b.at(201)), "illegal_transition"),
    "a requeue into the future": (DEAD, b.requeued(run_at=b.at(999)), "what would have been recorded is"),
    "a job under a key that is taken": (NEW, b.enqueued(idempotency_key="k2"), "its idempotency key belongs to job"),
    "a job at another time than it asked for": (NEW, b.enqueued(run_at=b.at(999)), "what would have been recorded is"),
    "a job without a name": (NEW, b.enqueued(kind=""), "out of bounds"),
    "a job of endless attempts": (NEW, b.enqueued(max_attempts=10**6), "out of bounds"),
    "a job of a boundless policy": (NEW, b.enqueued(retry_policy=Exponential(base=1e9)), "out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_an_event_that_nobody_can_have_decided(story, what):
    """Checksum, tree and tables are right; what the job was forbids it, and the record is named with the reason."""
    number, event, why = FORGED[what]
    job = None if number == NEW else story.job(number)
    position = story.head().size + 1
    unheld = event.type == "job_completed" and job.lease is None
    models = () if unheld else READ_MODELS  # the statistics have no use for a run without a lease
    story.append(event, job, b.an_id(number), b.at(201), brought(event), models)
    report = story.verify()
    (events,) = [check for check in report.checks if check.name == "events"]
    assert [each.sort for each in events.faults] == ["event_illegal"]
    assert events.faults[0].text.startswith(f"position {position}, {event.type} of job {b.an_id(number)}: ")
    assert why in events.faults[0].text
    assert report.first_bad == position
    assert set(faults(report)) == {"events"}


def brought(event: e.Event) -> Content | None:
    """The content that an event's digest is of."""
    digests = {b.PAYLOAD.digest(): b.PAYLOAD, b.RESULT.digest(): b.RESULT, b.ERROR.digest(): b.ERROR}
    held = [getattr(event, name, None) for name in ("payload", "result", "error")]
    return next((digests[digest] for digest in held if digest is not None), None)


@pytest.mark.parametrize(
    ("number", "event"),
    [
        (RUNNING, b.completed(token=2)),
        (RUNNING, b.failed(token=2, run_at=b.at(201.5))),
        (RUNNING, b.renewed(token=2, expires_at=b.at(270))),
        (RUNNING, b.renewed(token=2, expires_at=b.at(260))),
        (RUNNING, b.released(token=2, run_at=b.at(201))),
        (RUNNING, b.canceled(reason="x")),
        (RUNNING, b.died(cause=DeathCause.NOT_RETRYABLE, token=2)),
        (WAITING, b.leased(token=2, attempt=1, expires_at=b.at(231))),
        (DEAD, b.requeued(run_at=b.at(201))),
        (NEW, b.enqueued(run_at=b.at(201))),
        (NEW, b.enqueued(idempotency_key="k9", asked_run_at=b.at(1), run_at=b.at(1))),
        (NEW, b.enqueued(asked_delay=5, run_at=b.at(201) + 5)),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_an_event_that_could_be_decided_is_not_suspected(story, number, event):
    """The neighbours of the forged ones, which decide would have given."""
    job = None if number == NEW else story.job(number)
    story.append(event, job, b.an_id(number), b.at(201), brought(event))
    assert story.verify().outcome is Outcome.SOUND


MEMBER = b'"time":'
FORMS = {
    "an extra member": lambda text: text[:-1] + b',"more":1}',
    "an extra member of the data": lambda text: text[:-2] + b',"more":1}}',
    "a doubled member": lambda text: text.replace(MEMBER, b'"time":5,"time":'),
    "a space": lambda text: text.replace(MEMBER, b'"time": '),
    "a line end": lambda text: text + b"\n",
    "members in another order": lambda text: text.replace(
        b'"id":"operator-1","type":"operator"', b'"type":"operator","id":"operator-1"'
    ),
    "an escaped letter": lambda text: text.replace(b"operator-1", b"\\u006fperator-1"),
}


@pytest.mark.parametrize("what", FORMS)
def test_a_record_in_a_form_that_nobody_writes(story, what):
    """Its values are right, and with it checksum, tree and tables; its bytes are not those they are written as."""
    job, position = story.job(RUNNING), story.head().size + 1
    text = encode_record(e.Record(position, job.id, job.version + 1, b.at(201), b.OPERATOR_ACTOR, b.canceled()))
    assert FORMS[what](text) != text
    with story.engine() as engine:
        engine.begin().append_text(FORMS[what](text), None)
        engine.commit()
    told = only_fault(story.verify(), "records", "record_form")
    assert told.startswith(f"the record at position {position} is not in the form this program writes")
    assert story.verify().first_bad == position


def test_a_record_of_an_older_format_has_its_own_form(story, monkeypatch):
    """It is lifted when it is read, so that its bytes are not those it would be written as today."""
    monkeypatch.setattr(e.JobCanceled, "format_version", 2)
    monkeypatch.setitem(UPCASTERS, ("job_canceled", 1), lambda data: {"reason": data["why"]})
    job, position = story.job(RUNNING), story.head().size + 1
    text = encode_record(e.Record(position, job.id, job.version + 1, b.at(201), b.OPERATOR_ACTOR, b.canceled()))
    text = text.replace(b'"format_version":2', b'"format_version":1').replace(b'"reason"', b'"why"')
    with story.engine() as engine:
        engine.begin().append_text(text, None)
        engine.commit()
    assert story.verify().outcome is Outcome.SOUND


@pytest.mark.parametrize(("between", "most"), [(0, 30_000), (300, 30_000), (300, 1)])
def test_an_id_that_begins_again(story, between, most, monkeypatch):
    """Its job was retired and its key forgotten, so that nothing is left of it but its records: lately or long ago."""
    monkeypatch.setattr(fold, "JOBS_IN_MEMORY_MAX", most)
    now, job_id = b.at(201), b.an_id(SUCCEEDED)
    with story.engine() as engine:
        driver = Driver(engine)
        driver.execute(b.retire(job_id, now=now), b.forget_key(job_id, now=now))
        driver.execute(*[b.enqueue(b.an_id(100 + number), payload=None, now=now) for number in range(between)])
    position = story.head().size + 1
    assert story.verify().outcome is Outcome.SOUND
    story.append(b.enqueued(payload=None, run_at=now), None, job_id, now)
    text = only_fault(story.verify(), "events", "event_illegal")
    assert text.startswith(f"position {position}, job_enqueued of job {job_id}: ") and "no id begins again" in text


@pytest.mark.parametrize(
    ("number", "event", "actor"),
    [
        (RUNNING, b.completed(token=2), b.OPERATOR_ACTOR),
        (RUNNING, b.canceled(), b.WORKER_ACTOR),
        (RUNNING, b.died(cause=DeathCause.NOT_RETRYABLE, token=2), COORDINATOR),
        (WAITING, b.leased(token=2, attempt=1, expires_at=b.at(231)), b.PRODUCER_ACTOR),
        (DEAD, b.requeued(run_at=b.at(201)), COORDINATOR),
        (NEW, b.enqueued(run_at=b.at(201)), b.WORKER_ACTOR),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_an_event_by_somebody_who_does_no_such_thing(story, number, event, actor):
    """Everything else about it is right; who does what is in the catalogue of events."""
    job = None if number == NEW else story.job(number)
    story.append(event, job, b.an_id(number), b.at(201), brought(event), actor=actor)
    text = only_fault(story.verify(), "events", "event_illegal")
    assert text.endswith(f": no {actor.type} does that")


def test_a_gap_in_a_jobs_versions(story):
    """A record that skips a version, with everything else right."""
    job = story.job(RUNNING)
    story.append(b.canceled(), changed(job, version=job.version + 1), job.id, b.at(201))
    report = story.verify()
    position = story.head().size
    assert faults(report)["events"] == ["version_gap"]
    text = f"position {position} is version {job.version + 2} of job {job.id}, after {job.version}"
    assert text in str(report)


def test_a_job_that_begins_in_the_middle(story):
    """Its first record is not its first version."""
    job = changed(story.job(RUNNING), spec=changed(story.job(RUNNING).spec, id=b.an_id(9)))
    story.append(b.canceled(), job, b.an_id(9), b.at(201))
    assert "version_gap" in faults(story.verify())["events"]


def test_a_time_that_goes_backwards(story):
    """A record that is older than the one before it."""
    with story.engine() as engine:
        transaction = engine.begin()
        transaction.last_time = 0
        transaction.append(None, b.enqueued(run_at=b.at(100)), b.an_id(NEW), b.at(100), b.PRODUCER_ACTOR, b.PAYLOAD)
        engine.commit()
    text = only_fault(story.verify(), "records", "time_backwards")
    assert text == f"position {story.head().size} is older than the one before it"
