"""Letting go of the map's pages: nothing is lost by it, whatever the directory is called."""

from __future__ import annotations

import sys
import threading

import pytest

from eventjobs.store.lmdb import residency
from eventjobs.testing import builders as b

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are let go of on Linux alone")

PAYLOAD = b.content('"' + "x" * 100_000 + '"')


@pytest.fixture
def let_go(monkeypatch):
    """However few pages are resident, they are too many."""
    monkeypatch.setattr(residency, "MAPPED_BYTES_MAX", 0)


def test_few_pages_are_left_alone(store):
    """Below the bound nothing is done."""
    store.open()
    store.enqueue()
    assert residency.release_pages(store.directory / "data.mdb") is False


@pytest.mark.usefixtures("let_go")
@pytest.mark.parametrize("name", ["plain", "with space", "größe", "\udcff", "(deleted)"])
def test_pages_that_are_let_go_are_read_again(store, name):
    """After the map was let go of, also in the middle of a read and of a write, everything reads as before."""
    store.directory = store.directory / name
    engine = store.open()
    jobs = [store.enqueue(payload=PAYLOAD) for _ in range(20)]
    with engine.read() as reader:
        assert residency.release_pages((store.directory / "data.mdb").resolve())
        assert all(reader.content(job.spec.payload) == PAYLOAD.text for job in jobs)
    with store.commit() as handler:
        engine.maintain()
        assert len(handler.lease(b.lease(), None, None, 20).jobs) == 20
    engine.maintain()
    with store.open().read() as reader:
        assert len(reader.records(0, 100)) == 40


@pytest.mark.usefixtures("let_go")
def test_readers_in_other_threads_do_not_notice(store):
    """Reading goes on while pages are let go of again and again."""
    engine = store.open()
    jobs = [store.enqueue(payload=PAYLOAD) for _ in range(5)]
    rounds = []

    def read() -> None:
        for _ in range(100):
            with engine.read() as reader:
                rounds.append(all(reader.content(job.spec.payload) == PAYLOAD.text for job in jobs))

    reading = threading.Thread(target=read)
    reading.start()
    while reading.is_alive():
        engine.maintain()
    assert rounds == [True] * 100
