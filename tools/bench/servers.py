"""The processes under load: a coordinator on a fresh store, and a bare endpoint to compare it with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp.web
import orjson
import uvloop

START_SECONDS = 30.0
STOP_SECONDS = 60.0

Address = tuple[str, int]


@contextmanager
def coordinator(directory: Path, store: str | None = None) -> Iterator[tuple[Address, int]]:
    """A coordinator over a store below the directory, or in a database by its URL: its address and process id."""
    with tempfile.TemporaryDirectory(prefix="eventjobs-bench-", dir=directory) as data:
        port_file = Path(data, "port")
        place = ["--data", str(Path(data, "store"))] if store is None else ["--store", store]
        command = [sys.executable, "-m", "eventjobs", "serve", *place, "--port", "0"]
        with _process([*command, "--port-file", str(port_file)], port_file) as served:
            yield served


@contextmanager
def bare_endpoint(directory: Path) -> Iterator[tuple[Address, int]]:
    """An aiohttp server that parses a JSON body and answers JSON of a job's size, and does nothing else."""
    with tempfile.TemporaryDirectory(prefix="eventjobs-bench-", dir=directory) as data:
        port_file = Path(data, "port")
        with _process([sys.executable, "-m", "eventjobs.tools.bench.servers", str(port_file)], port_file) as served:
            yield served


@contextmanager
def _process(command: list[str], port_file: Path) -> Iterator[tuple[Address, int]]:
    errors = port_file.with_name("stderr")  # a file: nobody reads while the process is under load
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not port_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[2]} did not start: {errors.read_text(errors='replace')[-500:]}")
            time.sleep(0.02)
        yield ("127.0.0.1", int(port_file.read_text())), process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def memory_bytes(pid: int) -> dict[str, int]:
    """Resident memory of a process as Linux counts it: `total`, `anonymous` without file pages. Empty elsewhere."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return {}
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    kilobytes = {name: int(fields[field].split()[0]) for name, field in (("total", "VmRSS"), ("anonymous", "RssAnon"))}
    return {name: value * 1024 for name, value in kilobytes.items()}


def _serve_bare(port_file: Path) -> None:
    answer = orjson.dumps({"id": "0" * 36, "text": "x" * 560})

    async def jobs(request: aiohttp.web.Request) -> aiohttp.web.Response:
        orjson.loads(await request.read())
        return aiohttp.web.Response(body=answer, status=201, content_type="application/json")

    async def main() -> None:
        app = aiohttp.web.Application()
        app.router.add_post("/jobs", jobs)
        runner = aiohttp.web.AppRunner(app, access_log=None)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        part = port_file.with_suffix(".part")
        part.write_text(str(runner.addresses[0][1]))
        part.rename(port_file)
        await asyncio.Event().wait()

    uvloop.run(main())


if __name__ == "__main__":
    _serve_bare(Path(sys.argv[1]))
