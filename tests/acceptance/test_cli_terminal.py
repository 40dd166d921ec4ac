"""What the commands show on a terminal, narrow or wide, and what they write where there is none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from eventjobs import Client
from eventjobs.testing.processes import CoordinatorProcess

Show = Callable[..., str]

KIND, QUEUE, WORKER = "thumbnail/render-large:v2", "images.high-priority", "render-7.internal.example.org"
PATH = "/srv/images/2026/11/holiday-panorama.tiff"
ERROR = {"type": "OSError", "message": f"{PATH} has an [red]unsupported[/] colour profile\x1b[2J in line 3"}
WIDTHS = (80, 105, 200)
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
async def jobs(client: Client) -> list[str]:
    """A dead job, a running one and a waiting one; their ids."""
    for _ in range(2):
        await client.enqueue(KIND, {"path": PATH}, queue=QUEUE)
    dies, runs = await client.lease(WORKER, max_jobs=2, lease_seconds=600)
    await client.fail(dies.id, dies.lease_token, ERROR, retry=False)
    return [dies.id, runs.id, (await client.enqueue("greet")).id]


@pytest.fixture
def show(coordinator: CoordinatorProcess, on_terminal: Show) -> Show:
    """What a command shows on a terminal: show(*arguments, columns=80, **environment)."""

    def run(*arguments: str, columns: int = 80, **environment: str) -> str:
        return on_terminal(eventjobs(*arguments), columns, EVENTJOBS_URL=coordinator.url, **environment)

    return run


def eventjobs(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "eventjobs", *arguments]


def piped(coordinator: CoordinatorProcess, *arguments: str) -> list[str]:
    """The lines a command writes into a pipe, however narrow the terminal is."""
    settings = {**os.environ, "EVENTJOBS_URL": coordinator.url, "COLUMNS": "40"}
    done = subprocess.run(eventjobs(*arguments), env=settings, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def lines_of(shown: str, columns: int) -> list[str]:
    """The lines without their styles. None passes the terminal's width, and nothing was cut."""
    lines = STYLE.sub("", shown).splitlines()
    assert [line for line in lines if len(line) > columns] == []
    assert "…" not in shown
    return lines


def words_of(lines: list[str]) -> list[str]:
    return " ".join(lines).split()


@pytest.mark.parametrize("columns", WIDTHS)
def test_lists_cut_nothing(show: Show, jobs: list[str], columns: int) -> None:
    """Ids, kinds, queues, states, workers and errors are whole at every width; a wide terminal has a line a job."""
    dead, running, waiting = jobs
    lines = lines_of(show("jobs", columns=columns), columns)
    expected = {*jobs, KIND, QUEUE, "greet", "default", "dead", "running", "queued", WORKER, "OSError:", PATH}
    assert expected <= {*words_of(lines)}
    assert "has an [red]unsupported[/] colour profile\\x1b[2J in line 3" in " ".join(words_of(lines))
    if columns == 200:
        begins = [line.split()[0] for line in lines if not line.startswith(" ")]
        assert begins == ["id", waiting, running, dead]
        assert [WORKER in line for line in lines if running in line] == [True]
    assert expected & {*words_of(lines_of(show("dead", columns=columns), columns))} >= {dead, KIND, QUEUE, PATH}


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_history_cuts_nothing(show: Show, jobs: list[str], columns: int) -> None:
    """Event names, workers and details are whole at every width, and each event begins a line."""
    shown = show("show", jobs[0], columns=columns)
    lines = lines_of(shown[shown.index("history") :], columns)
    assert {WORKER, f"kind={KIND}", f"queue={QUEUE}", "cause=not_retryable"} <= {*words_of(lines)}
    events = [line.split() for line in lines if re.match(r" +\d+ +\d+  \d{4}-", line)]
    names = ("job_enqueued", "job_leased", "job_died")
    assert [name for line in events for name in names if name in line] == list(names)


def test_counts_cut_nothing(show: Show, jobs: list[str]) -> None:
    """The names of queues and kinds are whole on a narrow terminal."""
    assert {QUEUE, KIND} <= {*words_of(lines_of(show("stats", columns=70), 70))}


def test_a_pipe_gets_a_line_for_each_job_and_event(coordinator: CoordinatorProcess, jobs: list[str]) -> None:
    """What is read with grep is neither folded nor styled, whatever the terminal is."""
    dead, running, waiting = jobs
    lines = piped(coordinator, "jobs")
    assert [line.split()[0] for line in lines] == ["id", waiting, running, dead]
    assert KIND in lines[3] and QUEUE in lines[3] and lines[3].endswith("colour profile\\x1b[2J in line 3")
    lines = piped(coordinator, "show", dead)
    (line,) = [line for line in lines if " job_died " in line]
    assert line.split()[:2] == ["3", "5"] and WORKER in line and "cause=not_retryable" in line
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("arguments", [["jobs"], ["show"], ["tail", "--after", "0", "--no-follow"]], ids=" ".join)
def test_colours_are_for_those_who_want_them(show: Show, jobs: list[str], arguments: list[str]) -> None:
    """A terminal gets them, unless NO_COLOR is set or it is a dumb one."""
    arguments += [jobs[0]] * (arguments == ["show"])
    red = "\x1b[31m"
    assert red in show(*arguments)
    assert red not in show(*arguments, NO_COLOR="1")
    assert "\x1b[" not in show(*arguments, TERM="dumb")
