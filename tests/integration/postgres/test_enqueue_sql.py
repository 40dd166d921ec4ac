"""eventjobs.enqueue and eventjobs.enqueue_request: what a producer's transaction may ask for, by the API's rules."""

from __future__ import annotations

import json
import uuid

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.api.body import parse
from eventjobs.api.edge import Edge
from eventjobs.api.enqueue_request import Occasion, read_job
from eventjobs.api.faults import Faults
from eventjobs.api.problems import Refused
from eventjobs.domain import limits
from eventjobs.domain.commands import Actor, ActorType, Enqueue
from eventjobs.domain.intake import NotEnqueued
from eventjobs.domain.value import changed
from eventjobs.testing.postgres import database_of

NO_SALT = bytes(16)
EDGE = Edge(lambda: 0, salt=lambda: NO_SALT)
REFUSED = (psycopg.DataError, psycopg.errors.ProgrammingError)
ASK = "SELECT eventjobs.enqueue_request(%s, %s, actor => 'shop')"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of this module's own, with a connection to it."""
    from eventjobs.projections import READ_MODELS
    from eventjobs.store.postgres import open_engine

    directory = tmp_path_factory.mktemp("store")
    engine = open_engine(database_of(directory), READ_MODELS)
    with psycopg.connect(database_of(directory)) as connection:
        yield engine, connection
    engine.close()


def over_http(text: str) -> Enqueue | None:
    """The command that POST /jobs makes of a body, None when it is refused."""
    faults = Faults()
    try:
        occasion = Occasion(EDGE, 0, Actor(ActorType.PRODUCER, "shop"))
        command = read_job(parse(text.encode("utf-8", "surrogatepass"), faults), occasion)
        faults.refuse_if_any()
    except Refused:
        return None
    return command


def in_sql(store, text: str) -> Enqueue | NotEnqueued | None:
    """What the intake makes of the same; None when the statement fails. Nothing of it stays."""
    from eventjobs.api.intake_request import reader_of
    from eventjobs.store.postgres.intake import Low, read_asked

    _, connection = store
    try:
        connection.execute(ASK, apart(text))
        (asked,) = read_asked(lambda *query: connection.execute(*query).fetchall(), Low(), 10, 1 << 24)
        return reader_of(EDGE)(asked)
    except REFUSED:
        return None
    finally:
        connection.rollback()


def apart(text: str) -> tuple[str, str | None]:
    """The members of a request, and the payload as it stands there."""
    begin, found, sent = text.partition('"payload":')
    return (begin.rstrip(", ") + "}", sent[:-1]) if found else (text, None)


def body(**members) -> str:
    return json.dumps({"kind": "k", **members})


def payload(text: str) -> str:
    return f'{{"kind":"k","payload":{text}}}'


LONG = "n" * limits.NAME_LENGTH_MAX
AS_OVER_HTTP = [
    body(),
    '{"job_type":"k"}',
    '{"kind":"k","job_type":"k"}',
    '{"kind":"k","job_type":"other"}',
    "{}",
    "[]",
    "null",
    "{",
    body(kind=None),
    body(kind=LONG, queue=LONG),
    body(kind=LONG + "n"),
    body(queue=LONG + "n"),
    *(body(kind=kind) for kind in ("", " ", "a b", "ü", "A9._:/@-", "a\n", 5)),
    *(body(queue=queue) for queue in (None, "", "q", "q\n", ["q"])),
    *(body(priority=priority) for priority in (-100, 100, -101, 101, None, 1.0, True, "1", 10**30, 0)),
    *(body(max_attempts=number) for number in (1, 1000, 0, 1001, 2.5, None)),
    *(body(delay_seconds=delay) for delay in (0, 0.1, 1e-9, 5, 315_576_000, 315_576_001, -1, "1", None, 2.0000005)),
    *(body(run_at=time) for time in ("2026-01-31T08:00:00Z", "2026-01-31t08:00:00.1234567891z", "2026-01-31T08:00:00")),
    *(body(run_at=time) for time in ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.9Z")),
    *(body(run_at=time) for time in ("9999-12-31T23:59:59-01:00", "2026-02-30T00:00:00Z", "tomorrow", "", 5, None)),
    *(body(run_at=time) for time in ("2026-01-31 08:00:00Z", "2026-01-31T08:00:60Z", "2026-01-31T24:00:00Z")),
    body(run_at="2026-01-31T08:00:00+05:30"),
    body(run_at="2026-01-31T08:00:00Z", delay_seconds=1),
    *(body(idempotency_key=key) for key in ("k" * 255, "k" * 256, "", "é 漢", "a\tb", "\x7f", None, 5)),
    *(body(retry_policy=policy) for policy in (None, "linear", [], {}, {"type": "Linear"}, {"type": "constant"})),
    *(body(retry_policy={"type": "exponential", **more}) for more in ({"base": 8, "max_delay": 10}, {"base": 301})),
    *(body(retry_policy={"type": "linear", **more}) for more in ({"jitter": 1}, {"jitter": 1.01}, {"base": -1})),
    *(
        body(retry_policy={"type": "constant", **more})
        for more in ({"base": 604_800}, {"base": 604_801}, {"jitter": 0})
    ),
    *(body(retry_policy={"type": "constant", **more}) for more in ({"base": None}, {"base": "1"}, {"base": 0.25})),
    *(body(retry_policy={"type": kind}) for kind in ("never", 5, None)),
    body(color="red"),
    body(payload=None),
    *(payload(text) for text in ("1.50", ' {"a" : 1 ,\n "b":"\\u00fc"} ', '"\\u0000"', "1e400", "-0", '"\\/"')),
    *(payload(text) for text in ("NaN", "01", "'a'", '"\\x"', '"\t"', "", "[1,]", '"\\ud83d\\ude00"', '"\\ud83d"')),
    *(payload(text) for text in ('"\\ude00\\ud83d"', '"\\\\ud83d"', '"\\\\\\ud83d"', '"\\uD83D\\u0041"')),
    *(payload("[" * deep + "]" * deep) for deep in (limits.JSON_DEPTH_MAX, limits.JSON_DEPTH_MAX + 1)),
    payload('{"a":[' * 64 + "]}" * 64),
    payload('{"a":[' * 64 + "{}" + "]}" * 64),
    payload('["' + "[" * 400 + '\\"{"]'),
    payload("[" + "[],{}," * 300 + "1]"),
    payload('"' + "x" * (limits.CONTENT_BYTES_MAX - 2) + '"'),
    payload('"' + "x" * (limits.CONTENT_BYTES_MAX - 1) + '"'),
]


@pytest.mark.parametrize("text", AS_OVER_HTTP, ids=lambda text: text[:60])
def test_what_http_takes_sql_takes_and_what_it_refuses_fails(store, text):
    """The same request makes the same command either way, or is refused in the producer's own statement."""
    wanted, found = over_http(text), in_sql(store, text)
    assert found == wanted if wanted is None else changed(found, job_id=wanted.job_id) == wanted


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_any_payload_comes_through_as_it_is(store, value, escaped, indent):
    """Byte by byte as over HTTP, spaces, escapes and digits included; or refused as there."""
    text = payload(json.dumps(value, ensure_ascii=escaped, indent=indent))
    if "\\u0000" not in text and "\x00" in text:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # no driver sends that
    wanted, found = over_http(text), in_sql(store, text)
    assert found == wanted if wanted is None else changed(found, job_id=wanted.job_id) == wanted


def test_what_sql_cannot_tell_is_refused_when_it_is_taken_in(store):
    """Of the characters that no terminal prints the function knows the control characters alone."""
    text = body(idempotency_key="zero​width")
    assert over_http(text) is None
    found = in_sql(store, text)
    assert found == NotEnqueued("invalid_request", "idempotency_key: must be 1 to 255 printable characters")


def test_all_faults_are_told_at_once(store):
    """One failure names every argument that is wrong, and the statement has no effect."""
    _, connection = store
    with pytest.raises(psycopg.errors.InvalidParameterValue) as failure:
        connection.execute("SELECT eventjobs.enqueue('a b', priority => 101, actor => 'ü', queue => '')")
    connection.rollback()
    text = failure.value.diag.message_primary
    assert all(name in text for name in ("kind must", "priority must", "actor must", "queue must"))
    assert connection.execute("SELECT count(*) FROM eventjobs.intake").fetchone() == (0,)
    connection.rollback()


def test_ids_are_of_the_kind_that_the_api_gives(store):
    """UUIDs of version 7: they begin with the database's time, and no two are the same."""
    _, connection = store
    clock = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    rows = connection.execute(
        f"SELECT {clock}, eventjobs.enqueue('k'), {clock} FROM generate_series(1, 500)"
    ).fetchall()
    connection.rollback()
    for before, job_id, after in rows:
        assert (job_id.version, job_id.variant) == (7, uuid.RFC_4122)
        assert before <= job_id.int >> 80 <= after
    assert len({job_id for _, job_id, _ in rows}) == 500


def test_every_argument_has_its_member(store):
    """The function for people and the one for programs ask for the same: under one key they are one request."""
    _, connection = store
    policy = '{"type": "linear", "base": 2}'
    members = (
        '{"kind": "k", "queue": "q", "priority": 7, "max_attempts": 3, "delay_seconds": 0.5,'
        ' "retry_policy": {"type": "LINEAR", "base": 2.0}, "idempotency_key": "key"}'
    )
    ((one, other),) = connection.execute(
        "SELECT eventjobs.enqueue('k', '[1.0]', 'q', 7, 3, NULL, 0.5, %s, 'key', 'shop'), "
        "eventjobs.enqueue_request(%s, '[1.0]', 'shop')",
        (policy, members),
    ).fetchall()
    assert one == other
    rows = connection.execute("SELECT convert_from(payload, 'UTF8'), actor FROM eventjobs.intake").fetchall()
    connection.rollback()
    assert rows == [("[1.0]", "shop")]
