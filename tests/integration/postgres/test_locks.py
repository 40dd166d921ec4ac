"""Locks that other sessions of the database hold: waited for, but not for long, and only by who must have them."""

from __future__ import annotations

import re
import threading

import psycopg
import pytest

from eventjobs.store.contract import JobsHeld, LeaseNeed, Needs, TryAgain
from eventjobs.store.postgres import engine, settings
from eventjobs.store.postgres.settings import bounded
from eventjobs.testing import builders as b
from eventjobs.testing.processes import wait_for

APPEND_LOCK = "SELECT pg_advisory_xact_lock(1163283010, 1)"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
FIRST, SECOND = b.an_id(1), b.an_id(2)
STATEMENT_MILLISECONDS = 10_000
"""So that who waits for ever is noticed before long."""


@pytest.fixture
def impatient(monkeypatch):
    """Lets transactions wait for a lock only so many milliseconds."""

    def let(milliseconds: int) -> None:
        for name in ("SETTINGS", "VIEW", "PULSE"):
            monkeypatch.setattr(engine, name, _with_lock_timeout(getattr(engine, name), milliseconds))

    return let


def _with_lock_timeout(old, milliseconds):
    if isinstance(old, list):
        return [(_with_lock_timeout(statement, milliseconds), parameters) for statement, parameters in old]
    new = re.sub(r"'lock_timeout', '\d+'", f"'lock_timeout', '{milliseconds}'", old)
    return re.sub(r"'statement_timeout', '\d+'", f"'statement_timeout', '{STATEMENT_MILLISECONDS}'", new)


def test_a_job_that_somebody_holds_is_named_and_not_waited_for_again(make_instance, foreign, impatient):
    """The first transaction that needs it waits; those after it are told at once, until the job is free."""
    instance = make_instance()
    instance.enqueue(b.enqueue(FIRST), b.enqueue(SECOND))
    impatient(100)
    with foreign.transaction():
        foreign.execute("SELECT FROM eventjobs.jobs WHERE id = %s FOR UPDATE", (FIRST,))
        with pytest.raises(JobsHeld) as held:
            instance.engine.begin(Needs(jobs=(FIRST, SECOND, b.an_id(3))))
        assert held.value.ids == {FIRST}
        impatient(0)  # which would be for ever
        with pytest.raises(JobsHeld):
            instance.engine.begin(Needs(jobs=(SECOND, FIRST)))
        instance.execute(b.cancel(SECOND))
    instance.execute(b.cancel(FIRST))
    assert instance.broken_off == 0


@pytest.mark.parametrize("table", ["jobs", "heads", "log"])
def test_a_table_that_somebody_locks_is_waited_for_a_while(make_instance, foreign, impatient, sound, table):
    """Writers and readers are told to try again, the store is not taken for damaged, and all goes on afterwards."""
    instance = make_instance()
    instance.enqueue(b.enqueue(FIRST))
    impatient(100)

    def write():
        transaction = instance.engine.begin(Needs(leases=(LeaseNeed(None, None, 1, "w", None),)))
        try:
            transaction.append(None, b.enqueued(), SECOND, transaction.now(0), b.PRODUCER_ACTOR, b.PAYLOAD)
        except BaseException:
            instance.engine.abort()
            raise
        instance.engine.commit()

    def read():
        with instance.engine.read() as reader:
            reader.job(FIRST)
            reader.record(1)

    with foreign.transaction():
        foreign.execute(f"LOCK TABLE eventjobs.{table} IN ACCESS EXCLUSIVE MODE")
        for use in (write, read, *([instance.engine.pulse] if table == "heads" else [])):
            with pytest.raises(TryAgain):
                use()
    write()
    read()
    assert len(sound(instance.engine)) == 2


def test_a_lock_on_the_intake_leaves_all_else_known(make_instance, foreign):
    """The head and the clock are told, what waits in the intake is not known; nobody waits for it for long."""
    instance = make_instance()
    instance.enqueue(b.enqueue(FIRST))
    with foreign.transaction():
        foreign.execute("LOCK TABLE eventjobs.intake IN ACCESS EXCLUSIVE MODE")
        pulse = instance.engine.pulse()
    assert pulse.size == 1 and pulse.time > 0 and not pulse.intake_known
    assert instance.engine.pulse().intake_known


def test_rows_locked_in_the_wrong_order_cost_an_attempt(make_instance, foreign, sound):
    """A session that locks the later job first makes a deadlock: the coordinator is broken off, and tries again."""
    instance = make_instance()
    instance.enqueue(b.enqueue(FIRST), b.enqueue(SECOND))
    foreign.execute("SET deadlock_timeout = '10s'")  # so that it is not the one who looks
    foreign.execute("BEGIN")
    foreign.execute("SELECT FROM eventjobs.jobs WHERE id = %s FOR UPDATE", (SECOND,))
    canceling = threading.Thread(target=lambda: instance.execute(b.cancel(FIRST), b.cancel(SECOND)))
    canceling.start()
    wait_for(lambda: foreign.execute(WAITS).fetchone() == (1,), "the coordinator to wait for the second job")
    foreign.execute("SELECT FROM eventjobs.jobs WHERE id = %s FOR UPDATE", (FIRST,))
    foreign.execute("COMMIT")
    canceling.join()
    assert instance.broken_off >= 1
    assert [record.event.type for record in sound(instance.engine)] == ["job_enqueued"] * 2 + ["job_canceled"] * 2


def test_a_locked_job_that_is_only_shown_holds_nobody_up(instance, foreign, connect, sound):
    """A repeat of its idempotency key, or of the lease request that it was given to, is answered without its lock, and
    so is what else is in the same commit."""
    keyed = b.enqueue(idempotency_key="order-1")
    (first,) = instance.enqueue(keyed)
    (leased,) = instance.lease(1, b.lease(request_id="r"))
    connect().execute("SELECT * FROM eventjobs.jobs FOR UPDATE")
    repeat, other = (b.enqueue(b.an_id(number), idempotency_key=key) for number, key in ((2, "order-1"), (3, None)))
    foreign.execute("SET lock_timeout = '1s'")
    again, new = instance.enqueue(repeat, other)
    assert (again.job.id, again.created, new.created) == (first.job.id, False, True)
    assert [job.id for job in instance.lease(1, b.lease(request_id="r"), queues=["nothing"])] == [leased.id]
    assert instance.broken_off == 0 and len(sound(instance.engine)) == 3


HOSTILE = {
    "lock_timeout": "10ms",
    "statement_timeout": "200ms",
    "idle_in_transaction_session_timeout": "10ms",
    "default_transaction_isolation": "serializable",
    "synchronous_commit": "off",
}


def test_what_a_server_sets_for_sessions_changes_nothing(make_instance, foreign, url, sound, at_once):
    """Timeouts that are too short for anything, and another isolation: each transaction says what it needs."""
    make_instance()
    for name, value in HOSTILE.items():
        foreign.execute(f"ALTER DATABASE {foreign.info.dbname} SET {name} = '{value}'")
    try:
        first, second = make_instance(), make_instance()

        def wait_for_turns():
            with psycopg.connect(url, autocommit=True) as slow:
                slow.execute(f"BEGIN; {bounded(0, 0, 0)}; {APPEND_LOCK}; SELECT pg_sleep(0.5); COMMIT")

        def enqueue(instance, start):
            for number in range(start, start + 5):
                instance.enqueue(b.enqueue(b.an_id(number)))

        at_once(wait_for_turns, lambda: enqueue(first, 100), lambda: enqueue(second, 200))
        assert first.broken_off == second.broken_off == 0
        first.engine.begin()
        assert first.engine._session.fetch("SHOW synchronous_commit") == [("on",)]
        first.engine.abort()
        with first.engine.read() as reader:
            assert reader.head().size == 10
            (idle,) = reader._asks.fetch("SHOW idle_in_transaction_session_timeout")
            assert idle == ("1min",) and len(reader.records(0, 10)) == 10
    finally:
        for name in HOSTILE:
            foreign.execute(f"ALTER DATABASE {foreign.info.dbname} RESET {name}")
    sound(first.engine)


def test_a_reader_sees_one_state_of_the_store(make_instance):
    """What is committed while it looks is not there for it, whatever it asks for."""
    instance = make_instance()
    instance.enqueue(b.enqueue(FIRST))
    with instance.engine.read() as reader:
        before = reader.job(FIRST)
        instance.execute(b.cancel(FIRST))
        instance.enqueue(b.enqueue(SECOND))
        assert reader.job(FIRST) == before and reader.job(SECOND) is None
        assert reader.records(0, 10)[-1].position == reader.head().size == 1


def test_waiting_for_locks_stays_below_what_a_paused_coordinator_may_take():
    """Who waits for a turn that a paused coordinator has is not refused before the database has ended it."""
    from eventjobs.coordinator.group_commit import ATTEMPTS_MAX, ATTEMPTS_SECONDS

    waited = min(ATTEMPTS_MAX, ATTEMPTS_SECONDS * 1_000 // settings.LOCK_MILLISECONDS + 1) * settings.LOCK_MILLISECONDS
    assert settings.IDLE_MILLISECONDS < waited < 15_000
    assert settings.OUTLASTING_MILLISECONDS > settings.IDLE_MILLISECONDS
    assert "'lock_timeout', '0'" in bounded(0, 0, 0)
