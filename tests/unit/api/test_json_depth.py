"""The depth of a JSON text is found without parsing it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventjobs.api.json_depth import deeper_than

values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\ab'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=3), inner, max_size=3)
    ),
)


def depth(value: object) -> int:
    """By recursion."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(values, st.booleans())
def test_it_agrees_with_recursion(value, spaced):
    """For any value, however its strings try to look like brackets."""
    text = json.dumps(value, indent=1 if spaced else None).encode()
    assert not deeper_than(depth(value), text)
    if depth(value):
        assert deeper_than(depth(value) - 1, text)


@pytest.mark.parametrize("text", [b"1", b'"["', b"[]", b"[[],[],[]]", b'{"a":{}}'])
def test_wide_is_not_deep(text):
    """Many values side by side count once."""
    assert not deeper_than(3, b"[" + b",".join([text] * 1000) + b"]")
