"""Retention, erasure, verify and rebuild of a store in a database, with two coordinators that keep the same rules."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from eventjobs.cli import exits
from eventjobs.testing.processes import CoordinatorProcess, wait_for

RULES = "succeeded 1s, canceled 365d, payloads 1s, keys 1s"
SECRET = "a-secret-that-must-go"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'eventjobs' ORDER BY 1"


@pytest.fixture
def pair(tmp_path: Path, url: str):
    """Two coordinators that let go by the same rules."""
    with ExitStack() as stack:
        made = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            made.append(stack.enter_context(CoordinatorProcess(tmp_path / name, "--retain", RULES, store=url)))
        yield made


def command(*arguments: str) -> bytes:
    """What a command says; it must succeed."""
    done = subprocess.run([sys.executable, "-m", "eventjobs", *arguments], capture_output=True, check=False)
    assert done.returncode == exits.DONE, done.stderr.decode() + done.stdout.decode()
    return done.stdout


def holds(foreign, text: str) -> list[str]:
    """The tables in which a text is, somewhere in a row."""
    found = []
    for (table,) in foreign.execute(TABLES).fetchall():
        rows = foreign.execute(f"SELECT t::text FROM eventjobs.{table} t").fetchall()
        if any(text.encode().hex() in row or text in row for (row,) in rows):
            found.append(table)
    return found


def test_what_is_let_go_is_gone_once_and_the_rest_is_sound(pair, url, foreign, tmp_path) -> None:
    """Jobs that succeeded are retired, one event each, whoever of the two came to it; their keys are forgotten; what an
    operator erased and what the rules let go is in no table; log, tables and an export of it all are sound."""
    first, second = pair
    body = [{"kind": "k", "payload": f"{SECRET}-{n}", "idempotency_key": f"key-{n}"} for n in range(6)]
    jobs = first.ask("/jobs/batch", {"jobs": body})[1]["jobs"]
    _, leased = second.ask("/lease", {"worker": "w", "max_jobs": 4})
    items = [{"id": job["id"], "token": job["lease_token"], "result": f"{SECRET}-result"} for job in leased["jobs"]]
    assert all(each["ok"] for each in first.ask("/complete", {"jobs": items})[1]["results"])
    assert "contents" in holds(foreign, SECRET)
    canceled, waiting = (job["id"] for job in jobs if job["id"] not in {item["id"] for item in items})
    assert second.ask(f"/jobs/{canceled}/cancel", {})[0] == 200
    command("erase", canceled, "--url", first.url)

    def kinds() -> Counter:
        events = first.ask("/events?limit=1000")[1]["events"]
        return Counter(event["type"] for event in events)

    wanted = {"job_retired": 4, "idempotency_key_forgotten": 5, "contents_erased": 1}
    wait_for(lambda: wanted.items() <= kinds().items(), "the rules to be kept")
    assert [first.ask(f"/jobs/{item['id']}")[0] for item in items] == [404] * 4
    assert second.ask(f"/jobs/{waiting}")[1]["payload"].startswith(SECRET)
    assert second.ask(f"/jobs/{waiting}/cancel", {})[0] == 200
    command("erase", waiting, "--url", second.url)
    wait_for(lambda: kinds()["idempotency_key_forgotten"] == 6, "the last key to be forgotten")
    assert holds(foreign, SECRET) == []
    assert kinds()["job_retired"] == 4

    verified = orjson.loads(command("verify", "--store", url, "--json"))
    assert verified["outcome"] == "sound", verified
    assert all(each["same"] for each in orjson.loads(command("rebuild", "--store", url, "--check", "--json")))
    (tmp_path / "export").write_bytes(command("export", "--store", url))
    command("verify", str(tmp_path / "export"))
    assert (first.stop(), second.stop()) == (exits.DONE, exits.DONE)
