"""GET /backup: a copy of a store that is at work, streamed, and cut off where nobody takes it."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from attrs import frozen

from eventjobs.api import routes_backup
from eventjobs.api.app import RUNNER_OPTIONS, build_app
from eventjobs.api.routes_backup import seconds_for_next
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.domain.limits import BACKUP_BYTES_PER_SECOND_MIN, BACKUP_PIECE_BYTES, BACKUP_WRITE_SECONDS_MAX
from eventjobs.projections import READ_MODELS
from eventjobs.store.lmdb import LmdbEngine, open_engine
from eventjobs.store.lmdb.snapshot import open_snapshot
from eventjobs.testing import builders as b
from eventjobs.testing.driver import Driver

LARGE = '"' + "x" * 900_000 + '"'
LARGE_JOBS = 20
"""Together far more than what sockets and pipes hold."""


@frozen
class Served:
    """A coordinator on disk."""

    url: str
    engine: LmdbEngine
    session: aiohttp.ClientSession
    coordinator: Coordinator


@pytest.fixture
async def served(tmp_path) -> AsyncIterator[Served]:
    engine = open_engine(tmp_path / "data", READ_MODELS, 256 << 20, force_filesystem=True)
    driver = Driver(engine)
    for number in range(1, LARGE_JOBS + 1):
        driver.execute(b.enqueue(b.an_id(number), payload=b.content(LARGE, number)))
    driver.engine._writer = None  # from here on the coordinator's thread writes
    coordinator = await Coordinator.start(engine)
    runner = web.AppRunner(build_app(coordinator), **RUNNER_OPTIONS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        yield Served(f"http://127.0.0.1:{runner.addresses[0][1]}", engine, session, coordinator)
        coordinator.drain()
    await runner.cleanup()
    await coordinator.stop()


async def no_copy_is_open(served: Served) -> None:
    """Wait until the coordinator would write another."""
    async with asyncio.timeout(20):
        while served.coordinator._copier is not None:
            await asyncio.sleep(0.01)


async def test_the_answer_is_a_store_with_the_head_that_its_headers_name(served, tmp_path):
    """Size and root are those of the copy, the records those of the store."""
    async with served.session.get(served.url + "/backup") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/octet-stream"
        (tmp_path / "copy.mdb").write_bytes(await answer.read())
    with served.engine.read() as reader, open_snapshot(tmp_path / "copy.mdb") as snapshot:
        copied = snapshot.reader()
        assert copied.head() == reader.head()
        assert copied.records(0, 100) == reader.records(0, 100)
        assert answer.headers["Eventjobs-Log-Size"] == str(LARGE_JOBS)
        assert base64.b64decode(answer.headers["Eventjobs-Log-Root"]) == reader.head().root


async def test_head_asks_for_the_headers_alone(served):
    """HEAD has the head and no file."""
    async with served.session.head(served.url + "/backup") as answer:
        assert (answer.status, answer.headers["Eventjobs-Log-Size"]) == (200, str(LARGE_JOBS))
    await no_copy_is_open(served)


async def test_only_one_is_taken_at_a_time_and_work_goes_on_meanwhile(served):
    """While a reader has not finished, another is told when to come again; jobs are taken; afterwards it works."""
    async with served.session.get(served.url + "/backup") as answer:
        async with served.session.get(served.url + "/backup") as other:
            refusal = await other.json(content_type=None)
            assert (other.status, refusal["code"]) == (503, "overloaded")
            assert int(other.headers["Retry-After"]) > 0
        async with served.session.post(served.url + "/jobs", json={"kind": "k"}) as enqueued:
            assert enqueued.status == 201
        assert answer.headers["Eventjobs-Log-Size"] == str(LARGE_JOBS)
        await answer.read()
    await no_copy_is_open(served)
    async with served.session.get(served.url + "/backup") as answer:
        assert answer.headers["Eventjobs-Log-Size"] == str(LARGE_JOBS + 1)
        await answer.read()


async def test_who_stops_reading_is_cut_off(served, monkeypatch):
    """The moment of the store is let go, and what came so far does not look like the end."""
    monkeypatch.setattr(routes_backup, "BACKUP_WRITE_SECONDS_MAX", 0.2)
    async with served.session.get(served.url + "/backup") as answer:
        await no_copy_is_open(served)
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


def test_who_trickles_is_cut_off_and_who_keeps_the_least_rate_is_not():
    """A piece in 14 seconds each is each in time, and too slow in sum; at the least rate there is always time."""
    second = BACKUP_BYTES_PER_SECOND_MIN
    assert seconds_for_next(0, 0.0) == BACKUP_WRITE_SECONDS_MAX
    assert seconds_for_next(2 * BACKUP_PIECE_BYTES, 28.0) <= 0
    assert all(seconds_for_next(n * second, float(n)) == BACKUP_WRITE_SECONDS_MAX for n in (1, 60, 86_400))
    assert seconds_for_next(86_400 * second, 3_600.0) == BACKUP_WRITE_SECONDS_MAX


async def test_a_reader_that_leaves_lets_the_moment_go(served):
    """A connection that is closed in the middle ends the copy."""
    async with served.session.get(served.url + "/backup") as answer:
        await answer.content.readany()
        answer.close()
    await no_copy_is_open(served)
    async with served.session.head(served.url + "/backup") as answer:
        assert answer.status == 200


async def test_a_copy_that_breaks_off_is_not_ended_well(served, monkeypatch):
    """When reading the store fails, the reader is not told that this was all."""

    def half(copy, descriptor: int) -> None:
        os.write(descriptor, b"x" * 1_000)
        raise OSError("the disk does not read")

    monkeypatch.setattr("eventjobs.store.lmdb.copying.LmdbCopy.write_to", half)
    with pytest.raises(aiohttp.ClientError):
        async with served.session.get(served.url + "/backup") as answer:
            await answer.read()
    await no_copy_is_open(served)


async def test_a_coordinator_that_stops_does_not_wait_for_a_reader(served):
    """The copy ends at once, and does not look like a whole one to its reader; no other is begun."""
    async with served.session.get(served.url + "/backup") as answer:
        begun = time.monotonic()
        served.coordinator.drain()
        await no_copy_is_open(served)
        assert time.monotonic() - begun < 10
        async with served.session.get(served.url + "/backup") as other:
            assert (other.status, (await other.json(content_type=None))["code"]) == (503, "shutting_down")
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_an_engine_without_a_file_says_so(api):
    """What cannot be copied is refused as such."""
    answer = await api.call("GET", "/backup")
    answer.refusal(501, "not_supported")
    assert (await api.call("GET", "/backup?x=1")).status == 422
