"""The writer: one commit for many, an answer only after it, and each request's trouble its own."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from eventjobs.coordinator import group_commit
from eventjobs.coordinator.replies import StoreAway, Unavailable, UnknownOutcome
from eventjobs.store.contract import Away, Corrupt, LeaseNeed, Needs, OutcomeUnknown, StorageFull, TryAgain
from eventjobs.testing import builders as b


def enqueuing(number: int):
    """Work that enqueues a job and gives its id."""

    def work(handler):
        (reply,) = handler.enqueue([b.enqueue(b.an_id(number))])
        return reply.job.id

    return work


def raising(error: Exception):
    """Work that appends something, and then raises."""

    def work(handler):
        handler.enqueue([b.enqueue(b.an_id(900))])
        raise error

    return work


def appended(stage) -> list[int]:
    """How many events each commit brought; those without one are left out."""
    return [len(effects.appended) for effects in stage.committed if effects.appended]


async def one_group(stage, *works, sizes=None):
    """Send the works so that they wait together for the writer, and give their tasks once all are answered."""
    commits = stage.commits or stage.group_commit()
    stage.engine.close_gate()
    first = asyncio.create_task(commits.run(lambda handler: None))
    await stage.engine.somebody_at_gate()
    sizes = sizes or [0] * len(works)
    tasks = [asyncio.create_task(commits.run(work, size)) for work, size in zip(works, sizes, strict=True)]
    await asyncio.sleep(0)
    stage.engine.calls.clear()
    stage.engine.open_gate()
    await first
    await asyncio.wait(tasks)
    return tasks


def test_an_answer_comes_after_the_commit(play):
    """While the commit has not returned, nobody is answered and nobody hears of its effects."""

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.close_gate()
        task = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done() and appended(stage) == []
        assert stage.records() == []
        stage.engine.open_gate()
        assert await task == b.an_id(1)
        assert [record.job_id for record in stage.records()] == [b.an_id(1)]
        assert len(stage.committed) == 1

    play(scene)


def test_what_waits_is_committed_together(play):
    """Requests that came while a commit was under way share the next one; each gets its own answer."""

    async def scene(stage):
        tasks = await one_group(stage, *map(enqueuing, range(1, 101)))
        assert [task.result() for task in tasks] == [b.an_id(number) for number in range(1, 101)]
        assert stage.engine.calls == ["begin", "commit"]
        assert appended(stage) == [100]

    play(scene)


def test_a_lone_request_is_not_held_back(play):
    """With nobody else there a request is committed at once: no time passes."""

    async def scene(stage):
        commits = stage.group_commit()
        began = stage.loop.time()
        assert await commits.run(enqueuing(1)) == b.an_id(1)
        assert stage.loop.time() == began

    play(scene)


@pytest.mark.parametrize("error", [ValueError("a broken promise"), Corrupt("a damaged row"), AssertionError("ours")])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_work_that_raises_is_taken_out(play, error, place):
    """Its request gets the error; the others are done exactly once, and nothing of it is in the log."""

    async def scene(stage):
        works = [enqueuing(number) for number in range(1, 5)]
        works.insert(place, raising(error))
        tasks = await one_group(stage, *works)
        assert tasks.pop(place).exception() is error
        assert [task.result() for task in tasks] == [b.an_id(number) for number in range(1, 5)]
        assert [record.job_id for record in stage.records()] == [b.an_id(number) for number in range(1, 5)]
        assert appended(stage) == [4]

    play(scene)


def test_a_group_of_nothing_but_trouble_commits_nothing(play):
    """When every work raises, each gets its own error and the log stays as it was."""

    async def scene(stage):
        errors = [ValueError(str(number)) for number in range(5)]
        tasks = await one_group(stage, *map(raising, errors))
        assert [task.exception() for task in tasks] == errors
        assert stage.records() == [] and appended(stage) == []
        assert "commit" not in stage.engine.calls
        assert await stage.commits.run(enqueuing(1)) == b.an_id(1)

    play(scene)


def test_no_room_for_one_is_no_trouble_for_the_others(play):
    """A work that finds the store full is answered storage_full; the others go on."""

    async def scene(stage):
        tasks = await one_group(stage, enqueuing(1), raising(StorageFull("no room")), enqueuing(2))
        refusal = tasks.pop(1).exception()
        assert isinstance(refusal, Unavailable) and refusal.code == "storage_full" and "no room" in str(refusal)
        assert [task.result() for task in tasks] == [b.an_id(1), b.an_id(2)]

    play(scene)


def test_a_full_disk_at_the_commit_is_told_to_all_and_no_end(play):
    """All of the group are answered storage_full, nothing is in the log, and later requests are served."""

    async def scene(stage):
        stage.engine.failures.extend([None, StorageFull("the disk is full")])
        tasks = await one_group(stage, *map(enqueuing, range(1, 4)))
        assert {(type(task.exception()), task.exception().code) for task in tasks} == {(Unavailable, "storage_full")}
        assert stage.records() == [] and appended(stage) == [] and stage.fatal == []
        assert await stage.commits.run(enqueuing(1)) == b.an_id(1)

    play(scene)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("error", [OutcomeUnknown("EIO"), RuntimeError("anything")])
def test_an_unknown_outcome_is_the_end(play, error, kept):
    """All of the group are told that nobody knows; the end is announced once; whoever comes later is refused."""

    async def scene(stage):
        stage.engine.failures.extend([None, error])
        stage.engine.kept = kept
        tasks = await one_group(stage, *map(enqueuing, range(1, 4)))
        assert {type(task.exception()) for task in tasks} == {UnknownOutcome}
        assert {task.exception().__cause__ for task in tasks} == {error}
        assert stage.fatal == [error] and appended(stage) == []
        calls = list(stage.engine.calls)
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                await stage.commits.run(enqueuing(9))
            assert caught.value.code == "shutting_down"
        assert stage.engine.calls == calls, "the engine must not be used again"

    play(scene)


def test_those_who_waited_at_the_end_are_refused(play):
    """Requests behind the commit that failed were not begun: they are told that nothing was done."""

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.failures.append(OutcomeUnknown("EIO"))
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        others = [asyncio.create_task(commits.run(enqueuing(number))) for number in range(2, 5)]
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await asyncio.wait([first, *others])
        assert isinstance(first.exception(), UnknownOutcome)
        assert {getattr(task.exception(), "code", None) for task in others} == {"shutting_down"}
        assert stage.engine.calls == ["begin", "commit"] and len(stage.fatal) == 1

    play(scene)


def test_an_engine_that_cannot_begin_is_the_end(play):
    """Without a transaction nothing can be promised: all are told so and the end is announced."""

    async def scene(stage):
        stage.engine.begin_failures.extend([None, Corrupt("the head is damaged")])
        tasks = await one_group(stage, enqueuing(1), enqueuing(2))
        assert {type(task.exception()) for task in tasks} == {UnknownOutcome}
        await stage.settle()
        assert len(stage.fatal) == 1

    play(scene)


def test_an_engine_that_cannot_drop_a_transaction_is_the_end(play):
    """The writer does not die in silence with its requests unanswered."""

    async def scene(stage):
        def abort() -> None:
            raise RuntimeError("cannot abort")

        stage.engine.abort = abort
        tasks = await one_group(stage, enqueuing(1), raising(ValueError("ours")), enqueuing(2))
        assert {type(task.exception()) for task in tasks} == {UnknownOutcome}
        assert [str(error) for error in stage.fatal] == ["cannot abort"]

    play(scene)


def test_groups_are_bounded_in_number(play, monkeypatch):
    """However many wait, a commit takes a bounded number of requests; all are answered."""
    monkeypatch.setattr(group_commit, "GROUP_REQUESTS_MAX", 10)

    async def scene(stage):
        tasks = await one_group(stage, *map(enqueuing, range(1, 26)))
        assert [task.result() for task in tasks] == [b.an_id(number) for number in range(1, 26)]
        assert appended(stage) == [10, 10, 5]
        assert [record.job_id for record in stage.records()] == [b.an_id(number) for number in range(1, 26)]

    play(scene)


def test_groups_are_bounded_in_bytes(play, monkeypatch):
    """A commit takes no more content than fits; what is larger than that goes alone."""
    monkeypatch.setattr(group_commit, "GROUP_BYTES_MAX", 100)

    async def scene(stage):
        tasks = await one_group(stage, *map(enqueuing, range(1, 8)), sizes=[50, 50, 1, 500, 60, 40, 1])
        assert [task.result() for task in tasks] == [b.an_id(number) for number in range(1, 8)]
        assert appended(stage) == [2, 1, 1, 2, 1]

    play(scene)


@pytest.mark.parametrize(("count", "size"), [(3, 0), (1_000, 70)])
def test_too_much_that_waits_is_refused(play, monkeypatch, count, size):
    """Beyond the bound of requests or of bytes the answer is overloaded, at once; later there is room again."""
    monkeypatch.setattr(group_commit, "PENDING_REQUESTS_MAX", count)
    monkeypatch.setattr(group_commit, "PENDING_BYTES_MAX", 200)

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.close_gate()
        tasks = [asyncio.create_task(commits.run(enqueuing(1), size))]
        await stage.engine.somebody_at_gate()
        while commits.pending < (count if size == 0 else 2):
            tasks.append(asyncio.create_task(commits.run(enqueuing(len(tasks) + 1), size)))
            await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                await commits.run(enqueuing(99), size)
            assert caught.value.code == "overloaded" and caught.value.retry_after_seconds > 0
        stage.engine.open_gate()
        await asyncio.gather(*tasks)
        assert await commits.run(enqueuing(99), size) == b.an_id(99)
        assert len(stage.records()) == len(tasks) + 1

    play(scene)


@pytest.mark.parametrize("error", [ValueError("ours"), StorageFull("no room")])
def test_what_failed_gives_its_bytes_back(play, monkeypatch, error):
    """However often requests fail, at their work or at the commit, there is room for the next afterwards."""
    monkeypatch.setattr(group_commit, "PENDING_BYTES_MAX", 200)

    async def scene(stage):
        commits = stage.group_commit()
        for _ in range(5):
            with pytest.raises((ValueError, Unavailable), match=str(error)):
                await commits.run(raising(error), 150)
        stage.engine.failures.extend([StorageFull("at the commit")] * 5)
        for _ in range(5):
            with pytest.raises(Unavailable, match="at the commit"):
                await commits.run(enqueuing(1), 150)
        assert await commits.run(enqueuing(1), 150) == b.an_id(1)

    play(scene)


def test_a_caller_that_left_still_counts(play, monkeypatch):
    """What a caller sent waits for the writer although nobody waits for the answer: memory stays bounded."""
    monkeypatch.setattr(group_commit, "PENDING_REQUESTS_MAX", 3)

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        for number in (2, 3):
            left = asyncio.create_task(commits.run(enqueuing(number)))
            await asyncio.sleep(0)
            left.cancel()
            await asyncio.wait([left])
        assert commits.pending == 3
        with pytest.raises(Unavailable, match="waiting to be written"):
            await commits.run(enqueuing(4))
        stage.engine.open_gate()
        await first
        await stage.settle()
        assert commits.pending == 0
        assert len(stage.records()) == 3, "what was sent is done, answered or not"

    play(scene)


def test_closing_finishes_what_waits(play):
    """Requests that came before the end are committed and answered; the thread has ended then."""

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        others = [asyncio.create_task(commits.run(enqueuing(number))) for number in range(2, 6)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(commits.close())
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await closing
        assert [task.result() for task in (first, *others)] == [b.an_id(number) for number in range(1, 6)]
        assert not commits._writer._thread.is_alive()

    play(scene)


def test_after_the_end_a_request_is_refused(play):
    """A request to a writer that was closed is told so, and does not wait for ever."""

    async def scene(stage):
        commits = stage.group_commit()
        await commits.close()
        with pytest.raises(Unavailable) as caught:
            await commits.run(enqueuing(1))
        assert caught.value.code == "shutting_down"
        await commits.close()

    play(scene)


def test_housekeeping_is_done_between_commits(play):
    """The engine keeps house on the writer's thread, never inside a transaction; its failure is told and no end."""

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        second = asyncio.create_task(commits.run(enqueuing(2)))
        await asyncio.sleep(0)
        commits.maintain()
        third = asyncio.create_task(commits.run(enqueuing(3)))
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await asyncio.gather(first, second, third)
        assert stage.engine.calls == ["begin", "commit", "begin", "commit", "maintain", "begin", "commit"]

        def broken() -> None:
            raise OSError("cannot keep house")

        stage.engine.maintain = broken
        with capture_logs() as lines:
            commits.maintain()
            assert await commits.run(enqueuing(4)) == b.an_id(4)
        assert [line["event"] for line in lines] == ["housekeeping_failed"]

    play(scene)


@pytest.mark.parametrize("where", ["begin_failures", "failures"])
def test_a_group_that_was_broken_off_is_worked_on_again(play, where):
    """A transaction that the store breaks off for the sake of others is done anew, and its effects are told once."""

    async def scene(stage):
        commits = stage.group_commit()
        getattr(stage.engine, where).extend([TryAgain("a deadlock"), TryAgain("a deadlock")])
        assert await commits.run(enqueuing(1)) == b.an_id(1)
        assert appended(stage) == [1] and len(stage.records()) == 1 and stage.fatal == []

    play(scene)


def test_a_group_that_is_broken_off_again_and_again_is_refused(play):
    """After so many attempts nothing was done, which is what the requests are told; the next one may succeed."""

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.failures.extend([TryAgain("a deadlock")] * group_commit.ATTEMPTS_MAX)
        with pytest.raises(Unavailable) as refused:
            await commits.run(enqueuing(1))
        assert refused.value.code == "overloaded" and stage.records() == []
        assert await commits.run(enqueuing(1)) == b.an_id(1)

    play(scene)


@pytest.mark.parametrize("error", [TryAgain("a statement took too long"), Away("no route to host")])
def test_trouble_of_the_store_amid_work_is_no_requests_own(play, error):
    """What the store raises while a request is worked on concerns the whole group, and what was begun is dropped."""

    async def scene(stage):
        troubled = [error]

        def work(handler):
            if troubled:
                raise troubled.pop()
            return enqueuing(2)(handler)

        first, second = await one_group(stage, enqueuing(1), work)
        assert stage.engine.calls[:2] == ["begin", "abort"]
        if isinstance(error, TryAgain):
            assert (first.result(), second.result()) == (b.an_id(1), b.an_id(2))
        else:
            assert isinstance(first.exception(), StoreAway) and isinstance(second.exception(), StoreAway)
            assert stage.records() == []

    play(scene)


@pytest.mark.parametrize("where", ["begin_failures", "failures"])
def test_a_store_that_is_away_is_told_of_and_no_end(play, where):
    """Nothing was done, and requests that come when the store is back are done."""

    async def scene(stage):
        commits = stage.group_commit()
        getattr(stage.engine, where).append(Away("no route to host"))
        with pytest.raises(StoreAway) as refused:
            await commits.run(enqueuing(1))
        assert refused.value.code == "overloaded" and refused.value.retry_after_seconds >= 1
        assert await commits.run(enqueuing(1)) == b.an_id(1) and stage.fatal == []

    play(scene)


def test_a_shared_store_outlives_an_unknown_outcome(play):
    """The group is told that its outcome is unknown, and the next one is done."""

    async def scene(stage):
        stage.engine.shared = True
        commits = stage.group_commit()
        stage.engine.failures.append(OutcomeUnknown("the connection broke"))
        with pytest.raises(UnknownOutcome):
            await commits.run(enqueuing(1))
        assert await commits.run(enqueuing(2)) == b.an_id(2) and stage.fatal == []

    play(scene)


def test_what_a_group_needs_is_said_beforehand(play):
    """The engine is told what all requests of a group will ask for, in the order of the requests."""

    async def scene(stage):
        commits = stage.group_commit()
        lease = LeaseNeed(None, ("email",), 3, "w", None)
        needs = [
            Needs(jobs=("a", "b")),
            Needs(keys=("k",), leases=(lease,)),
            Needs(jobs=("a",), errors_of=("a",), expired=5),
        ]
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(lambda handler: None))
        await stage.engine.somebody_at_gate()
        tasks = [asyncio.create_task(commits.run(lambda handler: None, needs=need)) for need in needs]
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await asyncio.gather(first, *tasks)
        assert stage.engine.needs[-1] == Needs(("a", "b", "a"), ("a",), ("k",), (lease,), 5)

    play(scene)
