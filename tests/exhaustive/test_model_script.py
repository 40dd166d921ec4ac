"""The script that checks the formal model says so when it cannot, and is then content, unless it was told not to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "specs" / "model" / "run.py"


@pytest.mark.parametrize(("required", "code"), [({}, 0), ({"EVENTJOBS_REQUIRE_SPIN": "1"}, 1)])
def test_without_spin_it_is_skipped_in_one_line(required, code, tmp_path):
    """No spin: one clear line; a failure only where spin is required."""
    done = subprocess.run(
        [sys.executable, SCRIPT], env={"PATH": str(tmp_path), **required}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout == "The formal model was skipped: there is no spin and no cc here (Debian: spin, gcc).\n"
