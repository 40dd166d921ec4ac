"""Durations on the command line and in rules are read in one way."""

from __future__ import annotations

import click
import pytest

from eventjobs.cli.durations import DURATION
from eventjobs.domain.limits import DAY_SECONDS, MICROSECONDS
from eventjobs.domain.retention import parse_rules

READ = {"0s": 0, "90s": 90, "1.5m": 90, "12h": 43_200, "30d": 30 * DAY_SECONDS, "4w": 28 * DAY_SECONDS}


@pytest.mark.parametrize("text", READ)
def test_a_duration_is_a_number_and_a_unit(text):
    """An option and a rule make the same of it."""
    assert DURATION.convert(text, None, None) == READ[text] * MICROSECONDS
    assert parse_rules(f"keys {text}").rules[0].age == READ[text] * MICROSECONDS


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1 d", "1y", "٣d", "36526d", "9" * 400 + "d"])
def test_anything_else_is_refused(text):
    """Nothing is guessed, and nothing longer than a hundred years is taken."""
    with pytest.raises(click.BadParameter, match="is not a duration such as 90s, 12h or 30d"):
        DURATION.convert(text, None, None)
