"""Coordinators as processes take in what producers' transactions ask for, and tell what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventjobs.cli import exits
from eventjobs.client import NewJob, enqueue_in, enqueue_many_in
from eventjobs.projections import READ_MODELS
from eventjobs.store.postgres import open_engine
from eventjobs.testing.postgres import database_of
from eventjobs.testing.processes import CoordinatorProcess, wait_for

EVENTJOBS = [sys.executable, "-W", "error", "-m", "eventjobs"]


def eventjobs(*arguments: str | Path, code: int = exits.DONE) -> str:
    """What a command prints."""
    done = subprocess.run([*EVENTJOBS, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout


def metrics(coordinator: CoordinatorProcess) -> dict[str, float]:
    with urllib.request.urlopen(f"{coordinator.url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory with a database of this module's own."""
    return tmp_path_factory.mktemp("intake")


@pytest.fixture(scope="module")
def both(place) -> Iterator[tuple[CoordinatorProcess, CoordinatorProcess]]:
    """Two coordinators over it."""
    url = database_of(place)
    for name in ("first", "second"):
        (place / name).mkdir()
    with (
        CoordinatorProcess(place / "first", store=url) as first,
        CoordinatorProcess(place / "second", store=url) as second,
    ):
        yield first, second


@pytest.fixture
def producer(place, both):
    """A producer's connection to their store."""
    with psycopg.connect(database_of(place)) as connection:
        yield connection


def test_a_waiting_worker_gets_the_job_and_its_id_is_that_of_the_producer(both, producer):
    """Unknown before the commit, also to who asks for it by its id; then leased by a long-poll elsewhere."""
    first, second = both
    leased = []
    ask = {"worker": "w", "wait_seconds": 30, "kinds": ["invoice"]}
    thread = threading.Thread(target=lambda: leased.append(second.ask("/lease", ask)[1]["jobs"]))
    thread.start()
    told = enqueue_in(producer, "invoice", [1.50])
    assert first.ask(f"/jobs/{told}")[0] == 404
    producer.commit()
    thread.join()
    assert [(job["id"], job["kind"], job["payload"]) for job in leased[0]] == [(told, "invoice", [1.50])]
    _, events = first.ask(f"/jobs/{told}/events")
    assert events["events"][0]["actor"] == {"type": "producer", "id": "postgres"}


def refusals(place) -> dict:
    return json.loads(eventjobs("intake", "--store", database_of(place), "--json"))


def test_what_is_refused_is_seen(place, both, producer):
    """In a log line, in the metrics, and by the command; nothing else is held up."""
    first, _ = both
    _, job = first.ask("/jobs", {"kind": "email", "idempotency_key": "order-1"})
    enqueue_in(producer, "other", {"a": 1.50}, idempotency_key="order-1", actor="shop")
    after = enqueue_in(producer, "email")
    producer.commit()
    wait_for(lambda: first.ask(f"/jobs/{after}")[0] == 200, "the job after it")
    told = refusals(place)
    assert (told["waiting"], told["oldest_asked_at"]) == (0, None)
    (refusal,) = told["refused"]
    assert (refusal["code"], refusal["job_id"], refusal["actor"]) == ("idempotency_key_reused", job["id"], "shop")
    assert refusal["request"]["payload"] == {"a": 1.5} and refusal["request"]["kind"] == "other"
    text = eventjobs("intake", "--store", database_of(place))
    assert text.startswith("0 waiting\n") and "idempotency_key_reused" in text and "shop" in text
    wait_for(lambda: sum(metrics(each)["eventjobs_intake_refused_total"] for each in both) == 1, "the count")
    assert sum(metrics(each)["eventjobs_intake_taken_total"] for each in both) >= 1
    assert sum(each.log.read_text().count("not_enqueued") for each in both) == 1


def test_a_request_whose_keys_job_is_damaged_is_set_aside(place, both, producer):
    """It is told with the reason; those beside it go on, and both coordinators live."""
    first, second = both
    _, job = first.ask("/jobs", {"kind": "k", "idempotency_key": "order-2"})
    damage = "UPDATE eventjobs.jobs SET value = set_byte(value, 0, 255 - get_byte(value, 0)) WHERE id = %s"
    producer.execute(damage, (job["id"],))
    enqueue_in(producer, "k", idempotency_key="order-2")
    told = enqueue_in(producer, "k")
    producer.commit()
    wait_for(lambda: first.ask(f"/jobs/{told}")[0] == 200, "the job beside it")
    failed = "SELECT id::text FROM eventjobs.not_enqueued WHERE code = 'failed'"
    wait_for(lambda: producer.execute(failed).fetchall() == [(job["id"],)], "the one that failed")
    assert first.ask("/readyz")[0] == second.ask("/readyz")[0] == 200
    producer.execute(damage, (job["id"],))  # once more, and it is whole again
    producer.commit()


def test_a_coordinator_killed_amid_a_flood_loses_nothing_and_does_nothing_twice(place, both, producer):
    """The other one goes on; each request is one job, in the order of its transaction. The log is sound."""
    first, second = both
    before = second.ask("/stats")[1]["head"]["size"]
    told = enqueue_many_in(producer, [NewJob("flood", number) for number in range(4_000)])
    producer.commit()
    wait_for(lambda: second.ask("/stats")[1]["head"]["size"] > before, "the first step")
    first.kill()
    wait_for(lambda: second.ask("/stats")[1]["head"]["size"] >= before + 4_000, "all of them")
    found, after = [], before
    while after < before + 4_000:
        _, page = second.ask(f"/events?limit=1000&after={after}")
        found += [event["job_id"] for event in page["events"]]
        after = page["events"][-1]["position"]
    assert found == told and second.ask("/stats")[1]["head"]["size"] == before + 4_000
    eventjobs("verify", database_of(place))


def test_what_was_asked_for_while_no_coordinator_ran_is_taken_in_later(tmp_path: Path, postgres_url):
    """Also by one that hears of nothing. Meanwhile it waits in the database, beside a log that verify finds sound."""
    open_engine(postgres_url, READ_MODELS).close()
    with psycopg.connect(postgres_url) as producer:
        told = enqueue_many_in(producer, [NewJob("k", number) for number in range(1_200)])
    waits = json.loads(eventjobs("intake", "--store", postgres_url, "--json"))
    assert waits["waiting"] == 1_200 and waits["oldest_asked_at"] is not None
    eventjobs("verify", postgres_url)
    with CoordinatorProcess(tmp_path, "--no-notify", store=postgres_url) as later:
        wait_for(lambda: later.ask("/stats")[1]["head"]["size"] == 1_200, "all of them")
        _, page = later.ask("/events?limit=1000")
        assert [event["job_id"] for event in page["events"]] == told[:1_000]
        assert metrics(later)["eventjobs_intake_taken_total"] == 1_200
        with psycopg.connect(postgres_url) as producer:
            last = enqueue_in(producer, "k", wake=False)
        wait_for(lambda: later.ask(f"/jobs/{last}")[0] == 200, "a look that nobody asked for")
    exported = eventjobs("export", "--store", postgres_url)
    assert exported.count('"job_enqueued"') == 1_201


def test_the_command_says_what_is_missing(postgres_url):
    """Without a store: one line, and nothing is made."""
    eventjobs("intake", "--store", postgres_url, code=exits.USAGE)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regnamespace('eventjobs')").fetchone() == (None,)
