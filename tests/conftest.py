"""Hypothesis profiles for the whole suite: `quick` (the default, the same examples every time) and `deep`.

Choose with HYPOTHESIS_PROFILE=deep; it draws other examples each time and many more of them.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=50, stateful_step_count=30, derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=2_000, stateful_step_count=100, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
