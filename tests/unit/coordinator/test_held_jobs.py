"""Groups that locks of other sessions break off: tried for a while, and refused only where they must be."""

from __future__ import annotations

import asyncio

import pytest

from eventjobs.coordinator import group_commit
from eventjobs.coordinator.replies import Unavailable
from eventjobs.store.contract import JobsHeld, Needs, TryAgain
from eventjobs.testing import builders as b


def enqueuing(number: int):
    """Work that enqueues a job and gives its id."""
    return lambda handler: handler.enqueue([b.enqueue(b.an_id(number))])[0].job.id


def test_a_group_that_is_broken_off_for_long_is_refused(play, monkeypatch):
    """Waiting for locks has its end too, however few the attempts were."""
    monkeypatch.setattr(group_commit, "ATTEMPTS_SECONDS", 0)

    async def scene(stage):
        commits = stage.group_commit()
        stage.engine.begin_failures.append(TryAgain("a lock timeout"))
        with pytest.raises(Unavailable) as refused:
            await commits.run(enqueuing(1))
        assert refused.value.code == "overloaded" and stage.engine.calls == ["begin"]

    play(scene)


def test_only_who_asked_for_a_job_that_somebody_holds_is_refused(play):
    """The others of the group are worked on without it."""

    async def scene(stage):
        stage.engine.close_gate()
        commits = stage.group_commit()
        first = asyncio.create_task(commits.run(enqueuing(1)))
        await stage.engine.somebody_at_gate()
        needs = [Needs(jobs=(b.an_id(8),)), Needs(), Needs(jobs=(b.an_id(9), b.an_id(7)))]
        tasks = [asyncio.create_task(commits.run(enqueuing(2 + n), needs=each)) for n, each in enumerate(needs)]
        await asyncio.sleep(0)
        stage.engine.begin_failures.append(JobsHeld([b.an_id(7)]))
        stage.engine.open_gate()
        answers = await asyncio.gather(first, *tasks, return_exceptions=True)
        assert answers[:3] == [b.an_id(1), b.an_id(2), b.an_id(3)]
        assert isinstance(answers[3], Unavailable) and answers[3].code == "overloaded"
        assert [len(effects.appended) for effects in stage.committed] == [1, 2]

    play(scene)
