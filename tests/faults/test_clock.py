"""The system's clock is set hours forward and back, under a coordinator that runs and between two runs: nothing is
lost, recorded time never goes back, and a jump ends no lease of a coordinator that runs."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from eventjobs.coordinator.clock import PACE_MAX
from eventjobs.testing.ledger import crowd_at
from eventjobs.testing.processes import CoordinatorProcess, wait_for

HOURS = 3
HOUR = 3_600
SLACK_SECONDS = 1
ACKNOWLEDGED_BETWEEN = 100
LEASE = {"worker": "w", "lease_seconds": 60}


@pytest.fixture
def jumps(profile: str) -> list[float]:
    """How far the wall clock is off, in hours, one after another."""
    return [HOURS, -HOURS, 0] * {"quick": 1, "ci": 3, "deep": 30}[profile]


def times(coordinator: CoordinatorProcess) -> list[float]:
    """When each record was made, as the log has it, in seconds since 1970."""
    events: list[float] = []
    while page := coordinator.ask(f"/events?after={len(events)}&limit=1000")[1]["events"]:
        events += [datetime.fromisoformat(event["time"]).timestamp() for event in page]
    return events


async def test_a_clock_that_jumps_under_load_costs_nothing(shim, jumps, tmp_path, judge):
    """Hours forward and back while clients are at work, and back while the coordinator is down: no lease ends, so that
    each job takes one attempt; recorded time goes no faster than the slewed clock may; the ledger is confirmed."""
    began = time.monotonic()
    with CoordinatorProcess(tmp_path, environment=shim.environment) as coordinator:
        async with crowd_at(coordinator.url) as crowd:
            for hours in jumps:
                await crowd.grown_by(ACKNOWLEDGED_BETWEEN)
                shim.set_clock(hours * HOUR)
                await crowd.grown_by(ACKNOWLEDGED_BETWEEN)
                if hours <= 0:  # set forward while it is down, leases run out as in an outage: see below
                    coordinator.kill()
                    crowd.up.clear()
                    await asyncio.to_thread(coordinator.restart)
                    crowd.up.set()
        recorded = times(coordinator)
        assert coordinator.stop() == 0
    assert recorded == sorted(recorded)
    assert recorded[-1] - recorded[0] <= PACE_MAX * (time.monotonic() - began) + SLACK_SECONDS
    judge(crowd, coordinator.data)


def only(coordinator: CoordinatorProcess, path: str, body: dict) -> dict:
    """The document of a request that must be done; the only job of one that gives several."""
    status, document = coordinator.ask(path, body)
    assert status in (200, 201), document
    return document["jobs"][0] if "jobs" in document else document


def test_a_clock_set_forward_between_two_runs_is_an_outage(shim, tmp_path):
    """A lease of before is over and counted once, the job goes on under the next token, and the old one is stale. When
    the clock is set right again, recorded time stands where it was and goes on: a lease still ends by itself."""
    with CoordinatorProcess(tmp_path, environment=shim.environment) as coordinator:
        job = only(coordinator, "/jobs", {"kind": "k", "max_attempts": 3})
        assert only(coordinator, "/lease", LEASE)["lease_token"] == 1
        coordinator.kill()
        shim.set_clock(HOURS * HOUR)
        coordinator.restart()
        again = only(coordinator, "/lease", LEASE | {"wait_seconds": 30})
        assert (again["id"], again["lease_token"], again["attempts"]) == (job["id"], 2, 2)
        ahead = datetime.fromisoformat(again["updated_at"]) - datetime.now(UTC)
        assert abs(ahead.total_seconds() - HOURS * HOUR) < 60, "the process's clock is not the one that was set"
        status, refusal = coordinator.ask(f"/jobs/{job['id']}/complete", {"token": 1})
        assert (status, refusal["code"]) == (409, "stale_token")
        shim.set_clock(0)
        coordinator.kill()
        coordinator.restart()
        only(coordinator, f"/jobs/{job['id']}/renew", {"token": 2, "lease_seconds": 60})
        only(coordinator, f"/jobs/{job['id']}/release", {"token": 2})
        third = only(coordinator, "/lease", LEASE | {"lease_seconds": 0.2})
        assert third["lease_token"] == 3
        wait_for(lambda: coordinator.ask(f"/jobs/{job['id']}")[1]["state"] == "queued", "the lease to end")
        fourth = only(coordinator, "/lease", LEASE)
        assert only(coordinator, f"/jobs/{job['id']}/complete", {"token": 4})["attempts"] == fourth["attempts"] == 3
        recorded = times(coordinator)
        assert recorded == sorted(recorded)
        assert recorded[-1] - recorded[2] < SLACK_SECONDS + 60, "it took the hours with it"
        assert coordinator.stop() == 0
