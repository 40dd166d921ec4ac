"""A cursor gives its position back, and only to the list that gave it out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.api.cursors import cursor_of, cursor_text
from eventjobs.api.faults import Unfit


@given(st.integers(1, 2**63 - 1))
def test_a_cursor_comes_back(position):
    """For every position; in a query it needs no escaping."""
    text = cursor_text("jobs", position)
    assert text.replace("-", "").replace("_", "").isalnum()
    assert cursor_of("jobs")(text) == position


@pytest.mark.parametrize("value", ["", "0", "AAAAAAAAAAAAAAAA", "A" * 17, "*" * 16, "é" * 16, None, 5])
def test_a_made_up_cursor_is_refused(value):
    """What no list gave out is no cursor."""
    with pytest.raises(Unfit):
        cursor_of("jobs")(value)


def test_a_cursor_of_another_list_is_refused():
    """Positions of one list mean nothing in another."""
    with pytest.raises(Unfit):
        cursor_of("jobs")(cursor_text("dead", 5))


@given(st.integers(1, 2**40), st.integers(0, 15), st.sampled_from("AZaz09-_"))
def test_a_changed_cursor_is_refused(position, place, letter):
    """One letter changed is enough."""
    text = cursor_text("jobs", position)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        with pytest.raises(Unfit):
            cursor_of("jobs")(changed)


@pytest.mark.parametrize("position", [2**63, 2**64 - 1])
def test_a_position_beyond_every_log_is_refused(position):
    """However well the checksum was made up: no store can look for it."""
    with pytest.raises(Unfit):
        cursor_of("jobs")(cursor_text("jobs", position))
