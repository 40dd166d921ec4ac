"""An idle coordinator costs nothing, however many workers wait for jobs and however much is scheduled for later."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import psutil
import pytest

WAITING_WORKERS = 50
WAIT_SECONDS = 3
WAKE_UPS_MAX = 40
"""Of all its threads together; six are usual. Waiters that look for jobs each second would be seen."""
CPU_SECONDS_MAX = 0.1


def wake_ups(process: psutil.Process) -> int:
    """How often a thread of the process gave the processor up to wait for something."""
    statuses = [Path(f"/proc/{process.pid}/task/{thread.id}/status").read_text() for thread in process.threads()]
    return sum(int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for status in statuses)


async def post(session: aiohttp.ClientSession, path: str, body: dict) -> dict:
    async with session.post(path, json=body) as answer:
        assert answer.status in (200, 201)
        return await answer.json()


@pytest.mark.skipif(sys.platform != "linux", reason="wake-ups are counted as Linux shows them")
async def test_an_idle_coordinator_burns_no_processor_time(coordinator):
    """While fifty workers wait in long-polls, with leases out and jobs scheduled, the process sleeps."""
    process = psutil.Process(coordinator.process.pid)
    async with aiohttp.ClientSession(coordinator.url, connector=aiohttp.TCPConnector(limit=0)) as session:
        for number in range(20):
            await post(session, "/jobs", {"kind": "later", "delay_seconds": 600 + number})
        await post(session, "/jobs", {"kind": "running"})
        await post(session, "/lease", {"worker": "busy", "kinds": ["running"], "lease_seconds": 600})
        lease = {"kinds": ["nothing", "later"], "wait_seconds": WAIT_SECONDS}
        polls = [
            asyncio.create_task(post(session, "/lease", {"worker": f"idle-{number}", **lease}))
            for number in range(WAITING_WORKERS)
        ]
        await post(session, "/lease", {"worker": "last", "kinds": ["nothing"], "wait_seconds": 1})  # by now all wait
        before = wake_ups(process), sum(process.cpu_times()[:2])
        await post(session, "/lease", {"worker": "last", "kinds": ["nothing"], "wait_seconds": WAIT_SECONDS - 1})
        after = wake_ups(process), sum(process.cpu_times()[:2])
        assert [answer["jobs"] for answer in await asyncio.gather(*polls)] == [[]] * WAITING_WORKERS
    assert after[0] - before[0] <= WAKE_UPS_MAX
    assert after[1] - before[1] <= CPU_SECONDS_MAX
