"""A disk that is really full: new work is refused, reads are served, and all goes on when there is room again."""

from __future__ import annotations

import os
import urllib.request

import pytest

from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.handler import Handler
from eventjobs.projections import READ_MODELS
from eventjobs.store.contract import StorageFull
from eventjobs.store.lmdb import open_engine
from eventjobs.testing import builders as b
from eventjobs.testing.processes import CoordinatorProcess

DISK = 4 << 20
BALLAST = 1 << 20


@pytest.fixture
def disk(small_disk):
    """A disk of four megabytes, one of them taken by a file that can be removed."""
    directory = small_disk(DISK)
    (directory / "ballast").write_bytes(os.urandom(BALLAST))
    return directory


class Store:
    """An engine on the disk, with jobs of any size."""

    def __init__(self, directory) -> None:
        self.directory, self.count = directory, 0
        self.open()

    def open(self) -> None:
        self.engine = open_engine(self.directory / "data", READ_MODELS, 256 << 20, force_filesystem=True)

    def commit(self, step):
        handler = Handler(self.engine.begin(), Effects())
        try:
            outcome = step(handler)
        except BaseException:
            self.engine.abort()
            raise
        self.engine.commit()
        return outcome

    def enqueue(self, size: int):
        command = b.enqueue(b.an_id(self.count + 1), payload=b.content('"' + "x" * size + '"'))
        (reply,) = self.commit(lambda handler: handler.enqueue([command]))
        self.count += 1
        return reply.job

    def fill(self, size: int) -> None:
        with pytest.raises(StorageFull, match="disk .* is full .*make room, nothing else is needed"):
            for _ in range(10_000):
                self.enqueue(size)


@pytest.fixture
def store(disk):
    store = Store(disk)
    yield store
    store.engine.close()


@pytest.mark.parametrize("size", [10, 3_000, 50_000, 700_000])
def test_whatever_does_not_fit_is_storage_full(store, size):
    """However the system says that there is no room (an error, or less written than asked for), nothing of the commit
    is there, reads are served, and when there is room the same engine goes on."""
    store.fill(size)
    with store.engine.read() as reader:
        head = reader.head()
        assert head.size == store.count
        assert len(reader.records(0, 10_000)) == store.count
    for _ in range(3):
        with pytest.raises(StorageFull):
            store.enqueue(size)
    with store.engine.read() as reader:
        assert reader.head() == head
    (store.directory.parent / "disk" / "ballast").unlink()
    assert store.enqueue(10).spec.position == head.size + 1
    store.engine.close()
    store.open()
    with store.engine.read() as reader:
        assert reader.head().size == store.count


def test_a_store_on_a_full_disk_can_be_opened(store):
    """A coordinator that is started on a full disk serves reads, and goes on when there is room."""
    store.fill(50_000)
    store.engine.close()
    store.open()
    with store.engine.read() as reader:
        assert reader.head().size == store.count
    with pytest.raises(StorageFull):
        store.enqueue(50_000)
    (store.directory / "ballast").unlink()
    assert store.enqueue(50_000).version == 1


def fill_over_http(coordinator: CoordinatorProcess) -> list[dict]:
    """Enqueue smaller and smaller jobs until not one fits; those that did."""
    jobs = []
    for size in (100_000, 10_000, 10):
        status, answer = coordinator.ask("/jobs", {"kind": "work", "payload": "x" * size})
        while status == 201:
            jobs.append(answer)
            status, answer = coordinator.ask("/jobs", {"kind": "work", "payload": "x" * size})
        assert (status, answer["code"]) == (507, "storage_full")
    return jobs


def test_a_coordinator_outlives_a_full_disk(disk, tmp_path):
    """507 for what cannot be written, 200 for what can be read, and no restart: with room again, all goes on."""
    (tmp_path / "data").symlink_to(disk)
    with CoordinatorProcess(tmp_path) as coordinator:
        jobs = fill_over_http(coordinator)
        for path in (f"/jobs/{jobs[0]['id']}", "/jobs?limit=3", "/stats", "/events?limit=3", "/healthz", "/metrics"):
            with urllib.request.urlopen(coordinator.url + path, timeout=30) as answer:
                assert answer.status == 200
        status, refusal = coordinator.ask("/jobs", {"kind": "work", "payload": "x" * 100_000})
        assert (status, refusal["code"]) == (507, "storage_full")
        (disk / "ballast").unlink()
        assert coordinator.ask("/jobs", {"kind": "work"})[0] == 201
        status, leased = coordinator.ask("/lease", {"worker": "w", "max_jobs": 1_000})
        assert status == 200 and len(leased["jobs"]) == len(jobs) + 1
        results = [{"id": job["id"], "token": job["lease_token"]} for job in leased["jobs"]]
        status, answer = coordinator.ask("/complete", {"jobs": results})
        assert status == 200 and all(result["ok"] for result in answer["results"])
        assert coordinator.ask("/stats")[1]["jobs"]["succeeded"] == len(jobs) + 1
        assert coordinator.process.text().count("serving on") == 1
        assert coordinator.stop() == 0
