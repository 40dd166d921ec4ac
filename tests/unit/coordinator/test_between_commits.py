"""Work between two commits, on the writer's thread: that of the archiver."""

from __future__ import annotations

import asyncio

from eventjobs.coordinator.replies import UnknownOutcome
from eventjobs.store.contract import OutcomeUnknown


def test_what_was_to_be_done_between_commits_is_not_done_after_the_end(play):
    """Behind a commit that failed the store is not to be touched any more: the work is refused, not begun."""

    async def scene(stage):
        commits, begun = stage.group_commit(), []
        stage.engine.failures.append(OutcomeUnknown("EIO"))
        stage.engine.close_gate()
        first = asyncio.create_task(commits.run(lambda handler: None))
        await stage.engine.somebody_at_gate()
        between = asyncio.create_task(commits.between(lambda: begun.append(1)))
        stage.loop.stand_still_while(lambda: not between.done())
        await asyncio.sleep(0)
        stage.engine.open_gate()
        await asyncio.wait([first, between])
        assert isinstance(first.exception(), UnknownOutcome)
        assert between.exception().code == "shutting_down" and not begun

    play(scene)
