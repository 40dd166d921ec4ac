"""Old records leave the live store, under a running coordinator and without one, and no answer changes."""

from __future__ import annotations

import urllib.request

import orjson
import pytest
from click.testing import CliRunner, Result

from eventjobs.cli import exits
from eventjobs.cli.main import cli
from eventjobs.store.archive.manifest import Manifest, save_manifest
from eventjobs.testing.processes import CoordinatorProcess, wait_for

LINES = "\n".join(str(number) for number in range(700)) + "\n"


def run(*arguments: object, code: int = exits.DONE, **more: object) -> Result:
    """What a command does; its exit code must be `code`."""
    done = CliRunner().invoke(cli, [str(each) for each in arguments], **more)
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """A directory with a store of 700 records and more, whose segments have 256."""
    directory = tmp_path_factory.mktemp("past")
    with CoordinatorProcess(directory) as coordinator:
        (coordinator.data / "archive").mkdir()
        save_manifest(coordinator.data / "archive", Manifest(8))
        run("enqueue", "k", "--lines", "--url", coordinator.url, input=LINES)
        coordinator.stop()
    return directory


def answers(url: str) -> list[object]:
    """What the coordinator says of its log, with a job that was among the first."""
    first = orjson.loads(get(f"{url}/events?limit=1"))["events"][0]["job_id"]
    paths = ["/events?limit=1000", "/events?after=200&limit=100", "/log/head", "/log/proof?position=100", "/stats"]
    paths += ["/log/proof?from=300", "/log/proof?position=600&size=650", f"/jobs/{first}", f"/jobs/{first}/events"]
    return [get(url + path) for path in paths]


def get(url: str) -> bytes:
    with urllib.request.urlopen(url) as response:
        return response.read()


def test_a_running_coordinator_moves_old_records(past):
    """It is asked the same before and after, and stopped and started again; verify finds all of it sound."""
    with CoordinatorProcess(past) as coordinator:
        before = answers(coordinator.url)
        coordinator.stop()
    with CoordinatorProcess(past, "--archive-after", "0s") as coordinator:
        archive = coordinator.data / "archive"
        wait_for(lambda: len(list(archive.glob("*.log"))) == 2, "two segments to be sealed")
        assert answers(coordinator.url) == before
        coordinator.restart()
        assert answers(coordinator.url) == before
        assert "sound: 700 records" in run("verify", coordinator.data).stdout
        coordinator.stop()
    assert "sound: 700 records" in run("verify", coordinator.data).stdout
    assert "0 records moved; 512 of 700 are in the archive" in run("archive", "--data", coordinator.data).stdout


def test_moving_without_a_coordinator(tmp_path):
    """What is old enough is moved, once; a store that is in use, or is none, is refused."""
    with CoordinatorProcess(tmp_path) as coordinator:
        (coordinator.data / "archive").mkdir()
        save_manifest(coordinator.data / "archive", Manifest(8))
        refused = run("archive", "--data", coordinator.data, code=exits.USAGE)
        assert "in use by a coordinator" in refused.stderr
        assert "of its own" not in refused.stderr  # that is advice for a coordinator
        run("enqueue", "k", "--lines", "--url", coordinator.url, input=LINES)
        coordinator.stop()
    data = coordinator.data
    nothing = run("archive", "--data", data, "--older-than", "1h")
    assert nothing.stdout == "0 records moved; 0 of 700 are in the archive\n"
    moved = orjson.loads(run("archive", "--data", data, "--json").stdout_bytes)
    assert moved == {"moved": 512, "archived": 512, "size": 700}
    assert "does not exist" in run("archive", "--data", tmp_path / "nowhere", code=exits.USAGE).stderr
    assert "not a duration" in run("archive", "--data", data, "--older-than", "1 year", code=exits.USAGE).stderr
