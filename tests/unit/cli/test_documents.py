"""JSON that others can send and Python cannot hold is shown and not refused."""

from __future__ import annotations

import pytest

from eventjobs.cli.documents import loads


def test_numbers_beyond_python_stay_what_they_are():
    """A float beyond every double and an integer of five thousand digits are shown as they were sent."""
    digits = "9" * 5_000
    assert loads(f'{{"a": 1e400, "b": {digits}, "c": 1.5, "d": 7}}') == {"a": "1e400", "b": digits, "c": 1.5, "d": 7}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", ""])
def test_what_is_no_json_is_refused(text):
    """Python's own additions to JSON are none."""
    with pytest.raises(ValueError, match=r"."):
        loads(text)
