"""Hypothesis profiles for the whole suite, chosen with HYPOTHESIS_PROFILE.

`quick`, the default, and `ci` draw the same examples every time, `ci` more of them; `deep` draws many other examples
at each run and prints how to reproduce a failure.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=50, stateful_step_count=30, derandomize=True, deadline=None)
settings.register_profile("ci", max_examples=300, stateful_step_count=50, derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=3_000, stateful_step_count=100, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
