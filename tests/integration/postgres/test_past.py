"""The past and the reasons of jobs, from two coordinators over one database and from the database itself."""

from __future__ import annotations

import orjson
from click.testing import CliRunner

from eventjobs.cli.main import cli


def said(*arguments: str) -> str:
    """What a command prints."""
    done = CliRunner(env={"TZ": "UTC"}).invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_past_and_the_reasons_are_those_of_any_store(pair, postgres_url) -> None:
    """Why a job waits is told by the coordinator that workers ask; all else by either, and by the database."""
    first, second = pair
    job, other = (first.ask("/jobs", {"kind": "k", "payload": number})[1]["id"] for number in range(2))
    second.ask("/lease", {"worker": "w"})
    for coordinator in pair:
        assert "worker w has it until " in said("why", job, "--url", coordinator.url)
    assert "no worker asked this coordinator for queue default and kind k" in said("why", other, "--url", first.url)
    assert "ask again when one ends; last asked: w " in said("why", other, "--url", second.url)
    third = first.ask("/jobs", {"kind": "k"})[1]["id"]
    assert "1 job is (1 k in default) before it" in said("why", third, "--url", second.url)
    second.ask(f"/jobs/{job}/fail", {"token": 1, "error": "no", "retry_in_seconds": 600})
    assert "attempt 1 of 5 failed with Error: no; the next is not before " in said("why", job, "--url", first.url)
    first.ask(f"/jobs/{other}/cancel", {"reason": "enough"})
    assert "canceled it at 20" in said("why", other, "--url", second.url)
    for position, states in (
        ("2", {"queued": 2}),
        ("3", {"queued": 1, "running": 1}),
        ("5", {"queued": 2, "failed": 1}),
    ):
        assert first.ask(f"/jobs/{job}?at={position}")[1]["state"] == [*states][-1]
        numbers = second.ask(f"/stats?at={position}")[1]["jobs"]
        assert {state: number for state, number in numbers.items() if number} == states
        replayed = said("replay", "--store", postgres_url, "--at", position, "--json")
        assert orjson.loads(replayed)["jobs"] == numbers
    assert said("history", job, "--store", postgres_url) == said("history", job, "--url", first.url)
    assert f"{other} k in default: state queued -> canceled" in said(
        "replay", "--store", postgres_url, "--diff", "5", "6"
    )
