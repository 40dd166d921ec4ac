"""The client commands against a coordinator in a process of its own."""

from __future__ import annotations

import getpass
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.testing.processes import CoordinatorProcess, ProgramProcess, wait_for

Run = Callable[..., Result]

ABSENT = "01890a5d-ac96-774b-bcce-b302099a8057"


def command(url: str, *arguments: str, stdin: bytes = b"", code: int = exits.DONE, **environment: str) -> Result:
    """What a command does; its exit code must be `code`."""
    settings = {"EVENTJOBS_URL": url, "TZ": "UTC", **environment}
    done = CliRunner(env=settings).invoke(cli, arguments, input=stdin)
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


@pytest.fixture
def run(coordinator: CoordinatorProcess) -> Run:
    """A command against the test's coordinator."""
    return lambda *arguments, **more: command(coordinator.url, *arguments, **more)


def post(coordinator: CoordinatorProcess, path: str, body: object) -> dict:
    """The answer to a request as any program sends it."""
    request = urllib.request.Request(
        coordinator.url + path, orjson.dumps(body), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return orjson.loads(answer.read())


def kill_first_job(coordinator: CoordinatorProcess, kind: str) -> str:
    """Lease a job of the kind and fail it for good; its id."""
    (job,) = post(coordinator, "/lease", {"worker": "w-1", "kinds": [kind]})["jobs"]
    error = {"type": "ValueError", "message": "no [red]such[/] thing\nat all", "traceback": "Traceback: here"}
    post(coordinator, f"/jobs/{job['id']}/fail", {"token": job["lease_token"], "error": error, "retry": False})
    return job["id"]


def test_a_payload_passes_exactly_as_written(run: Run, tmp_path: Path) -> None:
    """From the argument, from standard input and from a file: digits, key order and spaces stay."""
    text = b'{"b": 1.10, "a": 123456789012345678901234567890, "t": "\\u00e9"}'
    file = tmp_path / "payload.json"
    file.write_bytes(text)
    for arguments, stdin in (([text.decode()], b""), (["-"], text), (["--file", str(file)], b"")):
        answer = run("enqueue", "exact", *arguments, "--json", stdin=stdin).stdout_bytes
        assert b'"payload":' + text + b"," in answer
        job_id = orjson.loads(answer)["id"]
        assert b'"payload":' + text + b"," in run("show", job_id, "--json").stdout_bytes
    assert orjson.loads(run("enqueue", "exact", "--json").stdout_bytes)["payload"] is None


def test_every_field_of_a_job_can_be_given(run: Run) -> None:
    """Queue, priority, delay, attempts, policy and key arrive; the key makes a repeat the same job."""
    arguments = (
        *("enqueue", "email", '"hi"', "--queue", "mail", "--priority", "7", "--delay", "3600", "--max-attempts", "3"),
        *("--retry-policy", '{"type":"constant","base":2}', "--key", "k-1", "--actor", "ada", "--json"),
    )
    job, again = (orjson.loads(run(*arguments).stdout_bytes) for _ in range(2))
    assert job == again
    assert (job["queue"], job["priority"], job["max_attempts"]) == ("mail", 7, 3)
    assert (job["retry_policy"], job["idempotency_key"]) == ({"type": "constant", "base": 2}, "k-1")
    event = orjson.loads(run("tail", "--after", "0", "--no-follow", "--json").stdout_bytes)
    assert event["actor"] == {"type": "producer", "id": "ada"}
    assert event["data"]["asked_delay_seconds"] == 3600
    at = orjson.loads(run("enqueue", "email", "--run-at", "2031-01-31T08:00:00+01:00", "--json").stdout_bytes)["run_at"]
    assert at == "2031-01-31T07:00:00.000000Z"


def test_options_come_from_variables_that_are_named_like_them(run: Run) -> None:
    """EVENTJOBS_<COMMAND>_<OPTION> is read for every command; a flag goes before it."""
    settings = {
        "EVENTJOBS_ENQUEUE_QUEUE": "mail",
        "EVENTJOBS_ENQUEUE_DELAY": "3600",
        "EVENTJOBS_ENQUEUE_MAX_ATTEMPTS": "3",
        "EVENTJOBS_ENQUEUE_KEY": "k-1",
        "EVENTJOBS_JSON": "1",
    }
    job = orjson.loads(run("enqueue", "email", "--max-attempts", "4", **settings).stdout_bytes)
    assert (job["queue"], job["max_attempts"], job["idempotency_key"]) == ("mail", 4, "k-1")
    event = orjson.loads(run("tail", "--json", EVENTJOBS_TAIL_AFTER="0", EVENTJOBS_TAIL_FOLLOW="no").stdout_bytes)
    assert event["data"]["asked_delay_seconds"] == 3600
    assert run("requeue", EVENTJOBS_REQUEUE_ALL="true").stdout_bytes == b"0 requeued\n"


def test_refusals_are_one_line_and_exit_with_one(run: Run) -> None:
    """Whatever the coordinator refuses: its code, the reason and the path, and REFUSED."""
    run("enqueue", "email", "1", "--key", "k")
    for arguments, words in (
        (["enqueue", "email", "2", "--key", "k"], b"idempotency_key_reused: "),
        (["enqueue", "no spaces"], b"invalid_request: kind: "),
        (["enqueue", "email", "--run-at", "tomorrow"], b"invalid_request: run_at: "),
        (["show", ABSENT], b"job_not_found: "),
        (["show", "../stats"], b"'../stats' is no job id"),
        (["jobs", "--cursor", "x"], b"invalid_request: cursor: "),
    ):
        shown = run(*arguments, code=exits.REFUSED).stderr_bytes
        assert shown.startswith(b"eventjobs: " + words), shown
        assert shown.count(b"\n") == 1


def test_lines_become_jobs(run: Run, tmp_path: Path) -> None:
    """More lines than a request may hold, as payloads and as whole jobs; a fault names its line."""
    lines = b"".join(b"%d\n" % number for number in range(2_100))
    assert run("enqueue", "count", "--lines", "--queue", "bulk", stdin=lines).stdout_bytes == b"2100 created\n"
    assert orjson.loads(run("stats", "--json").stdout_bytes)["queues"]["bulk"]["queued"] == 2_100
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b'{"kind":"a","idempotency_key":"1"}\n\n{"kind":"a","idempotency_key":"1"}\n')
    assert run("enqueue", "--lines", "--file", str(file)).stdout_bytes == b"1 created, 1 known already\n"
    file.write_bytes(b'{"kind":"a"}\n{"kind":"a","priority":"high"}\n')
    shown = run("enqueue", "--lines", "--file", str(file), code=exits.REFUSED).stderr_bytes
    assert b"line 2 priority: " in shown and b"0 lines before were taken" in shown


def test_lists_show_what_is_there(run: Run, coordinator: CoordinatorProcess) -> None:
    """jobs filters and pages; dead shows the last error, whatever is in it."""
    for kind in ("a", "b", "a"):
        run("enqueue", kind)
    dead = kill_first_job(coordinator, "b")
    page = orjson.loads(run("jobs", "--kind", "a", "--state", "queued", "--limit", "1", "--json").stdout_bytes)
    rest = orjson.loads(run("jobs", "--kind", "a", "--cursor", page["next_cursor"], "--json").stdout_bytes)
    assert len(page["jobs"]) == len(rest["jobs"]) == 1 and rest["next_cursor"] is None
    shown = run("jobs", "--limit", "2")
    assert shown.stdout_bytes.count(b"\n") == 3 and b"--cursor " in shown.stderr_bytes
    (line,) = [line for line in run("dead").stdout_bytes.decode().splitlines() if dead in line]
    assert "ValueError: no [red]such[/] thing" in line and "1/5" in line


def test_show_tells_the_whole_story(run: Run, coordinator: CoordinatorProcess) -> None:
    """Facts, payload, error and every event with who made it happen."""
    run("enqueue", "email", '{"to":["ada"]}')
    job_id = kill_first_job(coordinator, "email")
    run("requeue", job_id, "--actor", "ops")
    shown = run("show", job_id).stdout_bytes.decode()
    for words in ("email", "queued", '"ada"', "no [red]such[/] thing", "Traceback: here", "not_retryable", "ops"):
        assert words in shown
    events = ["job_enqueued", "job_leased", "job_died", "job_requeued"]
    assert [name for line in shown.splitlines() for name in events if f" {name} " in line] == events
    document = orjson.loads(run("show", job_id, "--json").stdout_bytes)
    assert document["job"]["id"] == job_id
    assert [event["type"] for event in document["events"]] == events


def test_an_error_is_told_with_its_attempt(run: Run, coordinator: CoordinatorProcess) -> None:
    """Of a job that succeeded after all, show says which attempt the error is of, and lists leave it out."""
    policy = '{"type":"constant","base":0}'
    job_id = orjson.loads(run("enqueue", "email", "--retry-policy", policy, "--json").stdout_bytes)["id"]
    for attempt in (1, 2):
        post(coordinator, "/lease", {"worker": "w-1", "wait_seconds": 30})
        post(coordinator, f"/jobs/{job_id}/fail", {"token": attempt, "error": f"attempt {attempt} broke"})
        assert f"attempt {attempt} broke" in run("jobs").stdout_bytes.decode()
    post(coordinator, "/lease", {"worker": "w-1", "wait_seconds": 30})
    post(coordinator, f"/jobs/{job_id}/complete", {"token": 3})
    assert "\nlast error (attempt 2)\nError: attempt 2 broke\n" in run("show", job_id).stdout_bytes.decode()
    listed = run("jobs").stdout_bytes.decode()
    assert job_id in listed and "broke" not in listed


def test_show_says_what_a_job_waits_for_as_why_does(run: Run, coordinator: CoordinatorProcess) -> None:
    """Of one that nobody asks for and of one that waits for its retry; nothing of one that is held or has ended."""

    def waiting(job_id: str) -> bytes:
        found = [line for line in run("show", job_id).stdout_bytes.splitlines() if line.startswith(b"waiting ")]
        return b"".join(found)

    job_id = orjson.loads(run("enqueue", "email", "--json").stdout_bytes)["id"]
    assert b"no worker asked this coordinator for queue default and kind email" in waiting(job_id)
    post(coordinator, "/lease", {"worker": "w-1", "kinds": ["email"]})
    assert waiting(job_id) == b""
    post(coordinator, f"/jobs/{job_id}/fail", {"token": 1, "error": "boom", "retry_in_seconds": 600})
    assert b"attempt 1 of 5 failed with Error: boom; the next is not before " in waiting(job_id)
    run("cancel", job_id)
    assert waiting(job_id) == b""


def test_each_named_job_is_decided_alone(run: Run, coordinator: CoordinatorProcess) -> None:
    """requeue and cancel do what they can, name what was refused, and exit with REFUSED then."""
    run("enqueue", "a")
    dead = kill_first_job(coordinator, "a")
    waiting = orjson.loads(run("enqueue", "a", "--json").stdout_bytes)["id"]
    done = run("requeue", waiting, dead, code=exits.REFUSED)
    assert done.stdout_bytes.decode() == f"{dead} queued\n"
    assert f"{waiting}: illegal_transition".encode() in done.stderr_bytes and b"1 of 2 refused" in done.stderr_bytes
    canceled = run("cancel", waiting, dead, "--reason", "not needed", "--json").stdout_bytes.splitlines()
    assert [orjson.loads(line)["state"] for line in canceled] == ["canceled", "canceled"]
    assert b"reason=not needed" in run("show", waiting).stdout_bytes
    assert b"job_not_found" in run("cancel", ABSENT, code=exits.REFUSED).stderr_bytes


def test_all_dead_jobs_can_be_requeued(run: Run, coordinator: CoordinatorProcess) -> None:
    """--all takes those that kind and queue name, and says how many they were."""
    for kind in ("a", "a", "b"):
        run("enqueue", kind)
        kill_first_job(coordinator, kind)
    assert run("requeue", "--all", "--kind", "a", "--limit", "1").stdout_bytes == b"1 requeued\n"
    assert orjson.loads(run("requeue", "--all", "--queue", "default", "--json").stdout_bytes) == {"requeued": 2}
    assert run("requeue", "--all").stdout_bytes == b"0 requeued\n"


def test_all_unfinished_jobs_can_be_canceled(run: Run, coordinator: CoordinatorProcess, monkeypatch) -> None:
    """--all takes those of a kind and queue, in every state and on every page of the list, and asks first."""
    monkeypatch.setattr("eventjobs.cli.cancel.LIST_LIMIT_MAX", 2)
    run("enqueue", "a")
    post(coordinator, "/lease", {"worker": "w-1", "kinds": ["a"]})
    for options in ([], ["--delay", "3600"], ["--queue", "other"], []):
        run("enqueue", "a", *options)
    run("enqueue", "b")
    choice = ("cancel", "--all", "--kind", "a", "--queue", "default")
    assert b"--yes" in run(*choice, code=exits.USAGE).stderr_bytes
    run("cancel", ABSENT, "--yes", code=exits.USAGE)
    assert run(*choice, "--yes", "--reason", "not needed").stdout_bytes == b"4 canceled\n"
    assert orjson.loads(run("cancel", "--all", "--yes", "--json").stdout_bytes) == {"canceled": 2}
    assert run("cancel", "--all", "--yes").stdout_bytes == b"0 canceled\n"
    assert run("jobs", "--state", "canceled", "--json").stdout_bytes.count(b'"state":"canceled"') == 6


def test_finished_jobs_are_erased_in_bulk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those chosen, after a yes or --yes, by USER@HOST unless another is named; nobody is asked where nobody is."""
    first, second, waiting = (
        orjson.loads(run("enqueue", kind, '"secret"', "--json").stdout_bytes)["id"] for kind in "aba"
    )
    run("cancel", first, second)
    choice = ("erase", "--kind", "a", "--state", "canceled")
    assert b"--yes" in run(*choice, code=exits.USAGE).stderr_bytes
    assert b"name the jobs" in run("erase", code=exits.USAGE).stderr_bytes
    run("erase", first, "--kind", "a", "--yes", code=exits.USAGE)
    monkeypatch.setattr("eventjobs.cli.erase.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    asked = run(*choice, stdin=b"n\n", code=1)
    assert b"all finished jobs (kind a, state canceled)?" in asked.stderr_bytes
    assert run(*choice, "--older-than", "1h", stdin=b"y\n").stdout_bytes == b"0 erased\n"
    assert run(*choice, "--reason", "asked for", stdin=b"y\n").stdout_bytes == b"1 erased\n"
    assert run("erase", "--older-than", "0s", "--yes", "--json", "--actor", "ada").stdout_bytes == b'{"erased":1}\n'
    assert b"payload" in run("show", waiting, "--json").stdout_bytes
    shown = [run("history", each, "--json").stdout_bytes for each in (first, second)]
    assert f"{getpass.getuser()}@{socket.gethostname()}".encode() in shown[0] and b"asked for" in shown[0]
    assert b"ada" in shown[1]


def test_stats_count(run: Run, coordinator: CoordinatorProcess) -> None:
    """By state, queue and kind, with the log's head."""
    run("enqueue", "a", "--queue", "q-1")
    run("enqueue", "b")
    kill_first_job(coordinator, "b")
    shown = run("stats").stdout_bytes.decode()
    assert "q-1" in shown and "expired leases 0" in shown and "log: 4 events, root " in shown
    found = orjson.loads(run("stats", "--json").stdout_bytes)
    assert found["jobs"]["dead"] == found["jobs"]["queued"] == 1


def test_tail_follows_and_resumes(coordinator: CoordinatorProcess, run: Run, tmp_path: Path) -> None:
    """Every event once and in order, across a crash of the coordinator; Ctrl+C ends it with INTERRUPTED."""
    run("enqueue", "before")
    arguments = [sys.executable, "-m", "eventjobs", "tail", "--after", "0", "--json", "--url", coordinator.url]
    with ProgramProcess(arguments, tmp_path / "tail.log") as tail:
        tail.wait_for_text('"position":1,')
        run("enqueue", "while")
        tail.wait_for_text('"position":2,')
        coordinator.kill()
        tail.wait_for_text("going on after position 2")
        coordinator.restart()
        run("enqueue", "after")
        tail.wait_for_text('"position":3,')
        tail.send(signal.SIGINT)
        assert tail.wait() == exits.INTERRUPTED
        events = [orjson.loads(line) for line in tail.text().splitlines() if line.startswith("{")]
    assert [event["position"] for event in events] == [1, 2, 3]


def test_tail_begins_at_the_end(coordinator: CoordinatorProcess, run: Run, tmp_path: Path) -> None:
    """Without --after only what comes is shown, one line an event."""
    run("enqueue", "old")
    arguments = [sys.executable, "-m", "eventjobs", "tail", "--url", coordinator.url]
    with ProgramProcess(arguments, tmp_path / "tail.log") as tail:

        def shown() -> bool:
            run("enqueue", "new")  # again until the stream is open: what came before it does not show
            return "kind=new" in tail.text()

        wait_for(shown, "a new event")
        assert "kind=old" not in tail.text()
        assert all(line.split()[3] == "job_enqueued" for line in tail.text().splitlines())
