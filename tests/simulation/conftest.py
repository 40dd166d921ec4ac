"""How many seeds the suite runs, and their runs, shared by the tests that look at them."""

from __future__ import annotations

import os
import random

import pytest

from eventjobs.testing.simulation.many import Tally, run_many

SEEDS = {"quick": 40, "ci": 200, "deep": 5_000}
PROCESSES = {"quick": 1, "ci": 2, "deep": os.cpu_count() or 1}
FIRST_DEEP_MAX = 10**9


@pytest.fixture(scope="session")
def profile() -> str:
    """How hard the suite tries."""
    return os.environ.get("EVENTJOBS_PROFILE", "quick")


@pytest.fixture(scope="session")
def tally(profile: str) -> Tally:
    """What came of the suite's seeds: the first ones, or in the deep profile others at each run."""
    first = random.SystemRandom().randrange(FIRST_DEEP_MAX) if profile == "deep" else 0
    return run_many(first, SEEDS[profile], PROCESSES[profile], lambda tally, seconds: None)
