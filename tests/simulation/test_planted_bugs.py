"""The simulation can fail: each of these bugs, planted in the product, is found within a stated number of seeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from eventjobs.api import routes_lease
from eventjobs.client import EventjobsError
from eventjobs.coordinator import group_commit
from eventjobs.coordinator.coordinator import Coordinator
from eventjobs.coordinator.effects import Effects
from eventjobs.coordinator.group_commit import GroupCommit
from eventjobs.coordinator.handler import Handler
from eventjobs.coordinator.replies import BatchRejected, Enqueued, Unavailable
from eventjobs.coordinator.rescuer import Rescuer
from eventjobs.coordinator.waiters import Waiters
from eventjobs.domain import decide as rules
from eventjobs.domain.job import State
from eventjobs.domain.rejections import Rejection
from eventjobs.store.contract import StorageFull, StoreError
from eventjobs.store.memory import MemoryTransaction
from eventjobs.testing.simulation import Plan, plan_of, run_plan
from eventjobs.worker.context import JobContext
from eventjobs.worker.fetcher import Fetcher
from eventjobs.worker.keeper import Keeper
from eventjobs.worker.settings import Settings
from eventjobs.worker.settler import Sending


def token_not_compared(plant):
    """Any token passes for the current one."""
    plant.setattr(rules, "_holds_lease", lambda job, token: job.state is State.RUNNING)


def greater_tokens_pass(plant):
    """Tokens are compared with <=."""
    plant.setattr(rules, "_holds_lease", lambda job, token: job.state is State.RUNNING and token <= job.lease_token)


def reply_before_commit(plant):
    """Answers go out while the commit is still to come."""
    right = GroupCommit._commit

    def wrong(self, group):
        effects, results = Effects(), []
        if self._work(group, Handler(self._engine.begin(), effects, self._engine.room_for_new_work), results):
            self._engine.abort()
            return right(self, group)
        self._answer([(request, result, None) for request, result in zip(group, results, strict=True)], effects)
        try:
            self._engine.commit()
        except StoreError as error:
            self._loop.call_soon_threadsafe(self._on_fatal, error)

    plant.setattr(GroupCommit, "_commit", wrong)


def unknown_told_as_refused(plant):
    """A commit that may have been kept is answered as if nothing was done."""

    def wrong(self, group, error):
        self._fatal = error
        self._loop.call_soon_threadsafe(self._on_fatal, error)
        self._answer([(request, None, Unavailable("storage_full", "")) for request in group], None)

    plant.setattr(GroupCommit, "_give_up", wrong)


def failed_work_is_committed(plant):
    """A request whose work raised is answered with its error, and what it had appended by then is kept."""

    def wrong(self, group, handler, results):
        for request in list(group):
            try:
                results.append(request.work(handler))
            except StorageFull as full:
                group.remove(request)
                self._answer([(request, None, group_commit._unavailable(full))], None)

    plant.setattr(GroupCommit, "_work", wrong)


def batch_half_applied(plant):
    """The items of a batch are appended one by one, until one is refused."""

    def wrong(self, commands):
        done = []
        for index, command in enumerate(map(self._timely, commands)):
            key = command.idempotency_key
            holder = None if key is None else self._transaction.key_holder(key)
            decision = rules.decide(holder, command)
            if isinstance(decision, Rejection):
                return BatchRejected(index, decision)
            done.append(Enqueued(self._append(None, decision[0], command) if decision else holder.job, bool(decision)))
        return done

    plant.setattr(Handler, "enqueue", wrong)


def rescuer_silent(plant):
    """Nobody ends leases that ran out."""
    plant.setattr(Rescuer, "_start_sweep", lambda self: None)


def wake_lost(plant):
    """Nobody is woken for a job that becomes available."""
    plant.setattr(Waiters, "offer", lambda self, *_: None)


def wake_not_handed_on(plant):
    """Who was woken and leaves keeps the wake."""
    plant.setattr(Waiters, "remove", lambda self, waiter: self._waiting.pop(waiter, None))


def due_jobs_not_noticed(plant):
    """Jobs that come due wake nobody."""
    plant.setattr(Coordinator, "_jobs_came_due", lambda self: None)


def request_id_ignored(plant):
    """A repeated lease request is given other jobs."""
    plant.setattr(MemoryTransaction, "grants", lambda self, *_: None)


def requests_of_one_id_answered_alone(plant):
    """A repeat that comes while the first one waits is answered by itself."""
    right = Coordinator.__init__

    class Forgetful(dict):
        def __setitem__(self, name, request):
            pass

        def __delitem__(self, name):
            pass

    def wrong(self, *arguments, **options):
        right(self, *arguments, **options)
        self._lease_requests = Forgetful()

    plant.setattr(Coordinator, "__init__", wrong)


def those_who_left_are_served(plant):
    """Jobs are leased to workers that have hung up."""
    plant.setattr(routes_lease, "client_has_gone", lambda request: False)


def another_id_for_each_try(plant):
    """The worker repeats a lease request under a new id."""
    right = Fetcher._ask

    async def wrong(self, request, wait_seconds):
        request.id += "'"
        return await right(self, request, wait_seconds)

    plant.setattr(Fetcher, "_ask", wrong)


def polls_longer_than_leases(plant):
    """The worker has its requests held open for longer than it would keep the jobs."""
    plant.setattr(Settings, "wait_seconds", property(lambda settings: settings.poll_seconds))


def refused_renewal_ignored(plant):
    """The worker goes on with a job whose lease it has lost."""
    plant.setattr(Keeper, "_refused", lambda self, held, result: None)


def outcome_after_cancel_sent(plant):
    """The worker stops a handler, and sends what comes of it all the same."""
    plant.setattr(JobContext, "canceled", property(lambda job: False))


def outcome_dropped_in_an_outage(plant):
    """The worker tries once to send an outcome."""

    async def wrong(self, batch):
        try:
            results = await self._send([held.outcome for held in batch])
        except EventjobsError:
            return
        for held, result in zip(batch, results, strict=True):
            self._settled(held, result)

    plant.setattr(Sending, "_deliver", wrong)


BUGS = [
    (token_not_compared, "any", 10, "under token"),
    (greater_tokens_pass, "any", 10, "under token"),
    (reply_before_commit, "any", 30, "but is not in the log"),
    (unknown_told_as_refused, "commit unknown", 60, "not refused|but is in the log"),
    (failed_work_is_committed, "disk full", 100, "not refused|but is in the log"),
    (batch_half_applied, "any", 20, "was refused with idempotency_key_reused, but is in the log"),
    (rescuer_silent, "any", 20, "ran out and nobody ends it"),
    (wake_lost, "any", 10, "waits for it in vain"),
    (wake_not_handed_on, "any", 100, "waits for it in vain"),
    (due_jobs_not_noticed, "any", 20, "waits for it in vain"),
    (request_id_ignored, "any", 30, "given jobs a second time"),
    (those_who_left_are_served, "any", 20, "which has gone"),
    (refused_renewal_ignored, "any", 30, "it had given the job up"),
    (outcome_after_cancel_sent, "any", 30, "it had given the job up"),
    (outcome_dropped_in_an_outage, "any", 30, "not enough for the end of every job"),
    (another_id_for_each_try, "gentle", 10, "attempts were lost for no reason"),
    (polls_longer_than_leases, "gentle", 20, "attempts were lost for no reason"),
    (requests_of_one_id_answered_alone, "gentle", 50, "attempts were lost for no reason"),
]
"""Bug, the plans that can show it (any, gentle ones, those with a fault), how many are enough, and the breach."""


def plans(which: str, count: int) -> Iterator[Plan]:
    """The first plans of a sort, in the order of their seeds."""
    fitting = (
        plan
        for plan in map(plan_of, itertools.count())
        if which == "any" or (plan.gentle if which == "gentle" else which in plan.faults)
    )
    return itertools.islice(fitting, count)


@pytest.mark.parametrize(("bug", "which", "enough", "breach"), BUGS, ids=[bug.__name__ for bug, *_ in BUGS])
def test_a_bug_is_found(monkeypatch, bug, which, enough, breach):
    """Among the first plans is one whose run breaks the promise that the bug is about."""
    bug(monkeypatch)
    assert any(re.search(breach, run_plan(plan).broken or "") for plan in plans(which, enough))
