"""history, why and show against a coordinator in a process of its own."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits, histories
from eventjobs.cli.main import cli
from eventjobs.testing.processes import CoordinatorProcess

ABSENT = "01890a5d-ac96-774b-bcce-b302099a8057"
Run = Callable[..., Result]


@pytest.fixture
def run(coordinator: CoordinatorProcess) -> Run:
    """A command against the test's coordinator; its exit code must be `code`."""

    def command(*arguments: str, code: int = exits.DONE) -> Result:
        done = CliRunner(env={"EVENTJOBS_URL": coordinator.url, "TZ": "UTC"}).invoke(cli, arguments)
        assert done.exit_code == code, f"{done.output} {done.exception!r}"
        return done

    return command


def post(coordinator: CoordinatorProcess, path: str, body: object) -> dict:
    request = urllib.request.Request(
        coordinator.url + path, orjson.dumps(body), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return orjson.loads(answer.read())


def test_a_history_is_told(coordinator: CoordinatorProcess, run: Run) -> None:
    """Who, when, attempt, token, how long it waited and ran, and why: from the coordinator and from its store alike."""
    job_id = post(coordinator, "/jobs", {"kind": "email", "queue": "mail", "max_attempts": 2})["id"]
    lease = {"worker": "w-1", "queues": ["mail"]}
    post(coordinator, "/lease", lease)
    post(coordinator, f"/jobs/{job_id}/fail", {"token": 1, "error": "boom", "retry_in_seconds": 0})
    post(coordinator, "/lease", lease)
    post(coordinator, f"/jobs/{job_id}/fail", {"token": 2, "error": "boom"})
    post(coordinator, f"/jobs/{job_id}/requeue", {})
    post(coordinator, "/lease", lease)
    post(coordinator, f"/jobs/{job_id}/complete", {"token": 3, "result": "sent"})
    lines = run("history", job_id).stdout.splitlines()
    assert lines[0].split() == ["version", "time", "event", "by", "attempt", "token", "waited", "ran", "why"]
    for line, parts in zip(
        lines[1:],
        (
            ("job_enqueued", "email in queue mail, at most 2 attempts"),
            ("job_leased", "worker w-1", "attempt 1 of 2"),
            ("attempt_failed", "the worker reported an error of 33 bytes"),
            ("job_leased", "attempt 2 of 2"),
            ("job_died", "given up, no attempts are left"),
            ("job_requeued", "operator", "a fresh set of attempts"),
            ("job_leased", "attempt 1 of 2"),
            ("job_completed", "a result of 6 bytes"),
        ),
        strict=True,
    ):
        assert all(part in line for part in parts), line
    told = orjson.loads(run("history", job_id, "--json").stdout)
    assert [each["token"] for each in told["events"]] == [None, 1, 1, 2, 2, 2, 3, 3]
    assert [each["waited_seconds"] is not None for each in told["events"]] == [
        each["type"] == "job_leased" for each in told["events"]
    ]
    assert [each["ran_seconds"] is not None for each in told["events"]] == [
        each["type"] in histories.ENDS_OF_RUNS for each in told["events"]
    ]
    data = next(Path(coordinator.directory).rglob("data.mdb")).parent
    assert run("history", job_id, "--data", str(data)).stdout == run("history", job_id).stdout
    run("history", ABSENT, code=exits.REFUSED)


def test_a_long_history_is_read_to_its_end(
    coordinator: CoordinatorProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few events one answer carries, `show` and `history` have all of them."""
    job_id = post(coordinator, "/jobs", {"kind": "k"})["id"]
    post(coordinator, "/lease", {"worker": "w"})
    for seconds in range(30, 40):
        post(coordinator, f"/jobs/{job_id}/renew", {"token": 1, "lease_seconds": seconds})
    whole = histories.Remote.get

    def two_at_a_time(self: histories.Remote, path: str, **query: object) -> bytes:
        return whole(self, path, **query, **({"limit": 2} if path.endswith("/events") else {}))

    monkeypatch.setattr(histories.Remote, "get", two_at_a_time)
    for command in ("show", "history"):
        versions = [each["version"] for each in orjson.loads(run(command, job_id, "--json").stdout)["events"]]
        assert versions == list(range(1, 13))


def test_why_a_job_is_not_running_in_a_sentence(coordinator: CoordinatorProcess, run: Run) -> None:
    """Each reason, with what is known of it."""
    job_id = post(coordinator, "/jobs", {"kind": "email", "queue": "mail", "max_attempts": 1})["id"]
    later = post(coordinator, "/jobs", {"kind": "email", "delay_seconds": 3600})["id"]
    said = run("why", job_id).stdout
    assert (
        "is queued: no worker asked this coordinator for queue mail and kind email" in said
        and "nor for any other" in said
    )
    assert "is queued: scheduled for " in run("why", later).stdout
    post(coordinator, "/lease", {"worker": "w-9", "queues": ["other"], "kinds": ["a", "b"]})
    assert "asked was for queues other and kinds a, b (worker w-9)" in run("why", job_id).stdout
    post(coordinator, "/lease", {"worker": "w-1", "kinds": ["nothing", "email"], "queues": ["mail"]})
    assert "worker w-1 has it until " in run("why", job_id).stdout
    assert "(attempt 1 of 1, token 1)" in run("why", job_id).stdout
    first, second, third = (
        post(coordinator, "/jobs", {"kind": "email", "queue": "mail", "payload": 1})["id"] for _ in range(3)
    )
    assert "hold as many jobs as they have room for" in run("why", first).stdout
    assert "1 job is (1 email in mail) before it" in run("why", second).stdout
    assert "2 jobs are (2 email in mail) before it" in run("why", third).stdout
    post(coordinator, f"/jobs/{job_id}/fail", {"token": 1, "error": "boom"})
    assert "it is the next for those who ask; last asked: w-1 " in run("why", first).stdout
    said = run("why", job_id).stdout
    assert "is dead: given up at " in said and ", no attempts are left; last error: Error: boom" in said
    post(coordinator, "/lease", {"worker": "w-1", "queues": ["mail"]})
    post(coordinator, f"/jobs/{first}/fail", {"token": 1, "error": "boom", "retry_in_seconds": 600})
    assert "attempt 1 of 5 failed with Error: boom; the next is not before " in run("why", first).stdout
    run("cancel", second, "--reason", "the guest left", "--actor", "anna")
    assert re.search(r"is canceled: operator anna canceled it at 20.*: the guest left$", run("why", second).stdout)
    run("erase", second, "--actor", "bert", "--reason", "asked for")
    said = run("why", second).stdout
    assert re.search(r"the guest left; operator bert erased payload at 20.*: asked for$", said)
    assert re.search(
        r"erased  *payload, by operator bert at 20.*: asked for$", run("show", second).stdout, re.MULTILINE
    )
    assert orjson.loads(run("why", second, "--json").stdout)["reason"] == "canceled"
    post(coordinator, "/lease", {"worker": "w-1", "queues": ["mail"]})
    post(coordinator, f"/jobs/{third}/complete", {"token": 1})
    assert re.search(r"is succeeded: worker w-1 completed it at 20.* \(attempt 1 of 5\)$", run("why", third).stdout)


def test_a_job_that_is_not_there_may_be_in_the_log(run: Run) -> None:
    """Whoever looks for it by the coordinator is told where a retired job is found."""
    for command in ("why", "show", "history"):
        said = run(command, ABSENT, code=exits.REFUSED).stderr
        assert "job_not_found" in said and "`eventjobs history ID --data DIR` tells of it" in said
