"""The archiver: seals on a thread of its own, takes out on the writer's, and outlives whatever goes wrong."""

from __future__ import annotations

import asyncio
import threading

import pytest
from structlog.testing import capture_logs

from eventjobs.coordinator.archiver import ROUND_SECONDS, Archiver
from eventjobs.coordinator.clock import SlewedClock
from eventjobs.coordinator.group_commit import GroupCommit
from eventjobs.coordinator.replies import Unavailable, UnknownOutcome
from eventjobs.store.contract import Corrupt, OutcomeUnknown, StorageFull
from eventjobs.store.memory import MemoryEngine
from eventjobs.testing import builders as b


class Store:
    """A store with some segments to be sealed, each of which is taken out in two steps."""

    def __init__(self, segments: int, *trouble: Exception) -> None:
        self.segments, self.trouble = segments, list(trouble)
        self.calls: list[str] = []
        self.threads: dict[str, str] = {}
        self.before: list[int] = []
        self.idle = False
        """Whether neither seal nor empty had anything left to do."""
        self._left = 0
        self._sealed = True

    def seal(self, before, pause) -> bool:
        self.calls.append("seal")
        self.before.append(before)
        self.threads["seal"] = threading.current_thread().name
        if self.trouble:
            raise self.trouble.pop(0)
        self._sealed = bool(self.segments)
        if not self.segments:
            return False
        pause()
        self.segments -= 1
        self._left = 2
        return True

    def empty(self) -> bool:
        self.calls.append("empty")
        self.threads["empty"] = threading.current_thread().name
        self._left -= 1
        self.idle = not self._sealed and self._left < 0
        return self._left >= 0


async def settled(condition) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def on_this_thread(work) -> bool:
    return work()


async def test_each_segment_is_taken_out_before_the_next_is_sealed():
    """So that the room it takes twice is that of one segment."""
    store, clock = Store(2), SlewedClock(not_before=b.START)
    now = clock.now()
    archiver = Archiver(store, b.seconds(60), clock, on_this_thread)
    await settled(lambda: store.idle)
    await archiver.stop()
    assert store.calls == [*2 * ["seal", "empty", "empty", "empty"], "seal", "empty"]
    assert all(before >= now - b.seconds(60) for before in store.before)
    assert store.threads["seal"] != threading.current_thread().name


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (StorageFull("no room"), "archive_put_off"),
        (Corrupt("broken"), "archive_failed"),
        (RuntimeError("a bug"), "archive_failed"),
    ],
    ids=["full", "damaged", "bug"],
)
async def test_trouble_is_told_and_tried_again(monkeypatch, error, line):
    """In the next round."""
    monkeypatch.setattr("eventjobs.coordinator.archiver.ROUND_SECONDS", 0.001)
    store = Store(1, error)
    with capture_logs() as lines:
        archiver = Archiver(store, 0, SlewedClock(not_before=b.START), on_this_thread)
        await settled(lambda: not store.segments and store.calls[-1] == "empty")
        await archiver.stop()
    assert [found["event"] for found in lines][:2] == [line, "log_sealed"]
    assert ROUND_SECONDS == 60


async def test_it_stops_amid_its_work():
    """At the next pause."""
    store = Store(1_000_000)
    archiver = Archiver(store, 0, SlewedClock(not_before=b.START), on_this_thread)
    await settled(lambda: store.segments < 1_000_000)
    await archiver.stop()
    assert store.segments > 0


@pytest.fixture
async def commits():
    """A writer alone, in real time, and what it found to be the end."""
    fatal: list[BaseException] = []
    commits = GroupCommit(MemoryEngine(), lambda effects: None, fatal.append)
    yield commits, fatal
    await commits.close()


async def test_work_between_two_commits(commits):
    """It runs on the writer thread, and its answer or its error comes back."""
    writer, fatal = commits
    assert await writer.between(lambda: threading.current_thread().name) == "eventjobs-writer"

    def fail() -> None:
        raise StorageFull("no room")

    with pytest.raises(StorageFull):
        await writer.between(fail)
    assert await writer.between(lambda: 1) == 1
    assert not fatal


async def test_an_unknown_outcome_between_two_commits_is_the_end(commits):
    """Nothing is written any more."""
    writer, fatal = commits

    def fail() -> None:
        raise OutcomeUnknown("broken")

    with pytest.raises(UnknownOutcome):
        await writer.between(fail)
    assert [str(error) for error in fatal] == ["broken"]
    with pytest.raises(Unavailable):
        await writer.between(fail)
