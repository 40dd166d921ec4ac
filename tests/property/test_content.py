"""Comparing JSON texts without the space that means nothing."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.domain.content import without_insignificant_space

spaces = st.text(" \t\r\n", max_size=3)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@st.composite
def spaced(draw) -> tuple[str, str]:
    """A JSON value's compact text, and the same with white space strewn between its tokens."""
    value, ascii_only = draw(values), draw(st.booleans())

    def tokens(part: object) -> list[str]:
        match part:
            case dict():
                pairs = [[json.dumps(name, ensure_ascii=ascii_only), ":", *tokens(each)] for name, each in part.items()]
                return ["{", *_joined(pairs), "}"]
            case list():
                return ["[", *_joined([tokens(each) for each in part]), "]"]
        return [json.dumps(part, ensure_ascii=ascii_only)]

    found = tokens(value)
    strewn = draw(spaces) + "".join(token + draw(spaces) for token in found)
    return "".join(found), strewn


def _joined(parts: list[list[str]]) -> list[str]:
    return [token for number, part in enumerate(parts) for token in ([","] if number else []) + part]


@given(spaced())
def test_space_between_tokens_is_removed_and_nothing_else(texts):
    """What is left is the compact text of the very same value, byte for byte."""
    compact, strewn = (text.encode() for text in texts)
    assert json.loads(strewn) == json.loads(compact)
    assert without_insignificant_space(strewn) == compact
    assert without_insignificant_space(compact) == compact


@given(values)
def test_it_equals_a_compact_rewrite(value):
    """A text written with indentation comes out as if written without."""
    pretty, compact = json.dumps(value, indent=2), json.dumps(value, separators=(",", ":"))
    assert without_insignificant_space(pretty.encode()) == compact.encode()
