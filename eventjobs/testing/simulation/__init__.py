"""Deterministic simulation: the real coordinator, API, client and worker in virtual time, with faults a seed makes.

    python -m eventjobs.testing.simulation --seeds 1000     # many seeds, on all cores
    python -m eventjobs.testing.simulation --first 42       # one seed, with its whole story

One integer seed decides everything that happens: what is enqueued, how handlers end, how long a message takes and
whether it arrives, who crashes and when. The same seed gives the same run, to the last line of its story.

Clock, network, disk and processes are simulated; all that the product does with them is production code. In the first
phase there are faults, and safety is checked at each commit and each answer. Then the faults end, and everything that
is open must come to its end within a bounded time.
"""

from eventjobs.testing.simulation.plan import Plan, plan_of
from eventjobs.testing.simulation.story import Run, run_plan, run_seed

__all__ = ["Plan", "Run", "plan_of", "run_plan", "run_seed"]
