"""The worker of the demo: `eventjobs worker eventjobs.cli.demo.handlers:worker`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from eventjobs.cli.demo.plan import FAST_KIND, SLOW_KIND, SLOW_SECONDS, work
from eventjobs.worker import Worker

worker = Worker(concurrency=4)


@worker.handler(FAST_KIND)
def digest_file(job: Any) -> dict[str, object]:
    """Hash and compress a file, in a thread; fail first when the job is one that makes trouble."""
    if job.attempt <= job.payload.get("failures", 0):
        raise RuntimeError(f"attempt {job.attempt} is one that fails")
    broken = job.payload.get("broken_while")
    if broken is not None and Path(broken).exists():
        raise RuntimeError("what this job needs is broken")
    return work(job.payload["path"])


@worker.handler(SLOW_KIND)
async def digest_file_slowly(job: Any) -> dict[str, object]:
    """The same after a while, as if another service had to answer first."""
    await asyncio.sleep(SLOW_SECONDS)
    return work(job.payload["path"])
