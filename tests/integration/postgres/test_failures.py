"""Connections that break, servers that stop, answers that are lost: nothing is done by halves, and all goes on."""

from __future__ import annotations

import threading

import psycopg
import pytest

from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import NOTHING, Away, Corrupt, OutcomeUnknown, StorageFull, StoreError, TryAgain
from eventjobs.store.postgres import open_engine
from eventjobs.store.postgres.connection import Session, connect
from eventjobs.store.postgres.settings import bounded
from eventjobs.testing import builders as b
from eventjobs.testing.processes import wait_for

ENDED = (TryAgain, Away)
LOCK_WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def terminate(foreign):
    """Ends every other backend of the database, as an administrator would, and waits until they are gone."""

    def end_them() -> None:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        foreign.execute(f"SELECT pg_terminate_backend(pid) {others}")
        wait_for(lambda: foreign.execute(f"SELECT count(*) {others}").fetchone() == (0,), "the backends to end")

    return end_them


def append(engine, number, needs=NOTHING):
    transaction = engine.begin(needs)
    try:
        transaction.append(None, b.enqueued(), b.an_id(number), transaction.now(0), b.PRODUCER_ACTOR, b.PAYLOAD)
    except BaseException:
        engine.abort()
        raise


def size_of(engine):
    with engine.read() as reader:
        return reader.head().size


@pytest.mark.parametrize("moment", ["before", "open", "written"])
def test_a_terminated_backend_leaves_nothing_and_is_replaced(make_instance, terminate, sound, moment):
    """Ended within a transaction, or after some of it was written: nothing is there. The next transaction works, also
    when the backend ended before."""
    engine = make_instance().engine
    append(engine, 1)
    engine.commit()
    if moment == "before":
        terminate()
    else:
        append(engine, 2)
        if moment == "written":
            assert engine._open.record(2).job_id == b.an_id(2)
        terminate()
        with pytest.raises(ENDED):
            engine.commit()
    append(engine, 3)
    engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(1), b.an_id(3)]


@pytest.mark.parametrize("moment", ["begin", "commit", "reading"])
def test_a_prepared_statement_that_the_server_has_lost_ends_one_connection(make_instance, sound, moment):
    """Nothing is done by halves, and the next transaction has a connection on which nothing was prepared."""
    engine = make_instance().engine
    for number in range(1, 9):  # psycopg prepares what was run five times
        append(engine, number)
        engine.commit()
        assert size_of(engine) == number
    forget = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"  # within a block, so that psycopg does not see it
    if moment == "reading":
        with engine._readers.borrowed() as session:
            session.connection.execute(forget)
        assert size_of(engine) == 8
        return
    if moment == "begin":
        engine._session.connection.execute(forget)
        append(engine, 9)
    else:
        append(engine, 9)
        engine._session.connection.execute(forget)
        with pytest.raises(TryAgain):
            engine.commit()
        append(engine, 9)
    engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(number) for number in range(1, 10)]


def test_a_question_on_a_broken_connection_can_be_aborted(make_instance, terminate):
    """Within the work the break is told of; the transaction is dropped without another error."""
    engine = make_instance().engine
    transaction = engine.begin()
    terminate()
    with pytest.raises(ENDED):
        transaction.job(b.JOB_ID)
    engine.abort()
    assert engine.begin().job(b.JOB_ID) is None
    engine.abort()


def test_readers_get_a_new_connection(make_instance, terminate):
    """A connection that was closed while it lay idle is replaced without anybody noticing."""
    engine = make_instance().engine
    assert size_of(engine) == 0
    terminate()
    assert size_of(engine) == 0 and engine.pulse().size == 0


def test_a_commit_whose_answer_was_lost_is_found(make_instance, lossy, sound):
    """The log has it: the commit was done, and is answered as such."""
    engine = make_instance().engine
    append(engine, 1)
    lossy(done=True)
    engine.commit()
    assert len(sound(engine)) == 1


def test_a_commit_whose_answer_was_lost_is_found_under_others(make_instance, lossy, sound):
    """Others have appended since: it is there all the same."""
    engine, other = make_instance().engine, make_instance()
    append(engine, 1)
    lossy(done=True, meanwhile=lambda: other.enqueue(b.enqueue(b.an_id(2)), b.enqueue(b.an_id(3))))
    engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(number) for number in (1, 2, 3)]


def test_a_commit_that_is_still_under_way_is_waited_for(make_instance, url, foreign, monkeypatch, sound):
    """The server goes on with what it was sent before the connection broke: whoever looks waits for its end."""
    engine, run, over = make_instance().engine, Session.run, threading.Event()
    threads = []

    def end_it(server_side, statements) -> None:
        while not over.is_set() and foreign.execute(LOCK_WAITS).fetchone() == (0,):
            over.wait(0.01)
        run(server_side, statements)
        server_side.drop()

    def broken(session, statements):
        if statements[-1][0] != "COMMIT":
            return run(session, statements)
        monkeypatch.setattr(Session, "run", run)
        server_side = Session(url)
        server_side._connection, session._connection = session._connection, None
        threads.append(threading.Thread(target=end_it, args=(server_side, statements)))
        threads[0].start()
        raise psycopg.OperationalError("the connection was lost")

    append(engine, 1)
    monkeypatch.setattr(Session, "run", broken)
    try:
        engine.commit()
    finally:
        over.set()
        threads[0].join()
    assert len(sound(engine)) == 1


def test_a_listener_that_connects_again_says_that_something_may_have_moved(make_instance, terminate, monkeypatch):
    """Notifications of the time in between went to nobody."""
    monkeypatch.setattr("eventjobs.store.postgres.listener.AGAIN_SECONDS", 0.05)
    heard = threading.Event()
    make_instance().engine.watch(heard.set)
    assert heard.wait(10)
    heard.clear()
    terminate()
    assert heard.wait(10)


def test_a_commit_that_did_not_arrive_is_not_taken_for_done(make_instance, lossy, sound):
    """The log does not have it, though another's record stands where it would have been: try again."""
    engine, other = make_instance().engine, make_instance()
    for meanwhile in (lambda: None, lambda: other.enqueue(b.enqueue(b.an_id(2)))):
        append(engine, 1)
        lossy(done=False, meanwhile=meanwhile)
        with pytest.raises(TryAgain):
            engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(2)]


@pytest.fixture
def open_some(server):
    """Opens so many engines on the server's database."""
    opened = []

    def open_them(count: int) -> list:
        opened.extend(open_engine(server.url, READ_MODELS) for _ in range(count))
        return opened

    yield open_them
    for engine in opened:
        engine.close()


def test_a_server_that_is_away_and_comes_back(server, open_some, sound):
    """Away for writers and readers alike while it is stopped; then everything goes on, and listeners hear again."""
    engine, other = open_some(2)
    heard = threading.Event()
    engine.watch(heard.set)
    append(engine, 1)
    server.stop()
    with pytest.raises((Away, OutcomeUnknown)):
        engine.commit()
    with pytest.raises(Away):
        engine.begin()
    with pytest.raises(Away):
        size_of(engine)
    server.start()
    append(engine, 2)
    engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(2)]

    def hears() -> bool:
        heard.clear()
        append(other, size_of(other) + 10)
        other.commit()
        return heard.wait(1)

    wait_for(hears, "the listener to hear of a commit")


def test_a_crash_of_the_server_under_load(server, open_some, sound):
    """Crashed twice while three coordinators enqueue: what was answered as done is there, once, and all in order."""
    engines = open_some(3)
    done: list[set[int]] = [set() for _ in engines]
    stopping = threading.Event()

    def write(place: int) -> None:
        number = 10_000 * (place + 1)
        while not stopping.is_set():
            number += 1
            try:
                append(engines[place], number)
                engines[place].commit()
            except (Away, TryAgain, OutcomeUnknown):
                stopping.wait(0.01)
            else:
                done[place].add(number)

    threads = [threading.Thread(target=write, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        before = list(map(len, done))
        wait_for(lambda before=before: all(len(d) > n + 5 for d, n in zip(done, before, strict=True)), "some commits")
        server.restart(crash=True)
    stopping.set()
    for thread in threads:
        thread.join()
    ids = [record.job_id for record in sound(engines[0])]
    assert {b.an_id(number) for each in done for number in each} <= set(ids) and len(ids) == len(set(ids))


def test_a_paused_coordinator_does_not_hold_up_the_others_for_ever(make_instance, monkeypatch, sound):
    """One stops in the middle of its transaction with the append lock in its hand: the database ends it."""
    monkeypatch.setattr("eventjobs.store.postgres.engine.SETTINGS", bounded(lock=10_000, statement=10_000, idle=300))
    paused, other = make_instance().engine, make_instance()
    append(paused, 1)
    other.enqueue(b.enqueue(b.an_id(2)))
    with pytest.raises(ENDED):
        paused.commit()
    assert [record.job_id for record in sound(other.engine)] == [b.an_id(2)]


BREAKING_OFF = """
CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'as if' USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER break_off AFTER INSERT ON eventjobs.log EXECUTE FUNCTION break_off();
"""


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("53100", StorageFull),
        ("40001", TryAgain),
        ("40P01", TryAgain),
        ("57014", TryAgain),
        ("53200", TryAgain),
        ("57P03", Away),
        ("25006", Away),
        ("XX001", Corrupt),
        ("42501", StoreError),
    ],
)
def test_what_the_server_refuses_with_is_told_apart(make_instance, foreign, sound, code, meant):
    """Each of the server's codes means one thing to a coordinator; nothing of the transaction is there afterwards."""
    engine = make_instance().engine
    foreign.execute(BREAKING_OFF.format(code=code))
    append(engine, 1)
    with pytest.raises(meant) as raised:
        engine.commit()
    assert type(raised.value) is meant
    foreign.execute("DROP FUNCTION break_off() CASCADE")
    append(engine, 2)
    engine.commit()
    assert [record.job_id for record in sound(engine)] == [b.an_id(2)]


def test_too_many_connections(foreign, url, sound):
    """While the server takes no more connections the store is away, for writers and readers; then it is there."""
    role = f"limited_{foreign.info.dbname}"
    foreign.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 5")
    foreign.execute(f"ALTER DATABASE {foreign.info.dbname} OWNER TO {role}")
    engine = open_engine(url.replace("://postgres@", f"://{role}@"), READ_MODELS)
    try:
        append(engine, 1)
        engine.commit()
        foreign.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        others = f"FROM pg_stat_activity WHERE usename = '{role}'"
        foreign.execute(f"SELECT pg_terminate_backend(pid) {others}")
        wait_for(lambda: foreign.execute(f"SELECT count(*) {others}").fetchone() == (0,), "the backends to end")
        for use in (engine.begin, engine.pulse, lambda: size_of(engine)):
            with pytest.raises(Away, match="too many connections"):
                use()
        foreign.execute(f"ALTER ROLE {role} CONNECTION LIMIT 5")
        append(engine, 2)
        engine.commit()
        assert len(sound(engine)) == 2
    finally:
        engine.close()
        foreign.execute(f"ALTER DATABASE {foreign.info.dbname} OWNER TO postgres")
        foreign.execute(f"REASSIGN OWNED BY {role} TO postgres")
        foreign.execute(f"DROP ROLE {role}")


def test_nothing_is_prepared_behind_a_pooler(url, monkeypatch):
    """A statement that was prepared on one of the pooler's connections is not there on another."""
    for pooled in (False, True):
        monkeypatch.setattr("eventjobs.store.postgres.connection.is_pooled", lambda connection, pooled=pooled: pooled)
        with connect(url) as connection:
            assert (connection.prepare_threshold is None) is pooled


def test_an_address_that_is_none_is_refused():
    """Text that is no address, and an address where nobody answers, each with its own words."""
    with pytest.raises(StoreError, match="no address"):
        open_engine("postgresql://[")
    with pytest.raises(Away, match="cannot be reached"):
        open_engine("postgresql://postgres@127.0.0.1:1/none")
