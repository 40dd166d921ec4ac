"""Seeds: every promise is kept in each run, and the runs are as rich in faults as they should be."""

from __future__ import annotations

from eventjobs.testing.simulation import plan_of, run_plan
from eventjobs.testing.simulation.plan import FAULTS, JOBS_MIN

LINES_TOLD = 40

HAPPENS = (
    "doubled request", "lost answer", "lost answer silently", "lost request", "lost request silently",
    "hanging commit", "answer: 200", "answer: 201", "answer: 409", "answer: 503", "answer: 507",
    "refused: stale_token", "refused: lease_expired", "refused: idempotency_key_reused", "refused: illegal_transition",
    "refused: storage_full", "event: lease_expired", "event: lease_released", "event: job_canceled",
    "event: job_requeued", "event: job_died", "said: lease_lost", "said: outcome_refused", "said: job_released",
    "said: store_failed", "said: sweep_put_off", "said: coordinator_answers_again", "said: keeper_late",
)  # fmt: skip
"""What must be seen in forty runs; a simulation in which it does not happen proves little."""


def test_every_promise_is_kept(tally):
    """No seed breaks one. A seed that does is told, with the end of its story and the command that shows it again."""
    assert not tally.broken, "\n".join(broken.told(LINES_TOLD) for broken in tally.broken[:3])


def test_runs_are_as_large_as_they_should_be(tally):
    """Each has fifty jobs and more, and tells of several events for each."""
    assert tally.jobs >= JOBS_MIN * tally.seeds
    assert tally.records >= 4 * tally.jobs


def test_every_sort_of_fault_comes_to_pass(tally):
    """All that can go wrong in the plans does go wrong, and leaves the traces that it should."""
    assert [fault for fault in FAULTS if not tally.seen[f"fault: {fault}"]] == []
    assert [sort for sort in HAPPENS if not tally.seen[sort]] == []


def test_a_lost_answer_to_a_lease_costs_no_attempt():
    """Answers to lease requests get lost, requests come twice, workers stop: every lease ends by its worker's word."""
    lost = 0
    for plan in [plan for plan in map(plan_of, range(100)) if plan.gentle][:6]:
        run = run_plan(plan)
        assert (run.broken, run.expirations) == (None, 0)
        lost += run.seen["lost answer"] + run.seen["lost answer silently"]
    assert lost > 20
