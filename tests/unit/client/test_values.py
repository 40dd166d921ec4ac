"""JSON values: nothing is changed on the way, and what cannot be said is told before anything is sent."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from eventjobs.client import InvalidValue
from eventjobs.client.values import array_text, from_json, object_text, to_json


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 12345678901234567890123, 0.1, 1e300, "", "é\n\x00😀", [], {}, {"b": [1, {"a": None}], "a": 2}],
)
def test_values_survive_the_round_trip(value):
    """What is read equals what was written, in value and type, and key order is kept."""
    text = to_json(value)
    again = from_json(text)
    assert (again, type(again)) == (value, type(value))
    assert to_json(again) == text
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), object(), {1}, {"a": b"b"}, "\udfff", {"\ud800": 1}, {(1,): 2}]
)
def test_what_json_cannot_say_is_refused(value):
    """The error is ours and a ValueError, and keeps its cause."""
    with pytest.raises(InvalidValue) as caught:
        to_json(value)
    assert isinstance(caught.value, ValueError)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("text", [b"1.0", b'{ "a" : 1e2 }', b"[-0, 12345678901234567890123]", b'"\\ud83d\\ude00"'])
def test_raw_text_goes_in_as_it_is(text):
    """Digits, spaces and escapes of a Raw value are not touched."""
    assert to_json(Raw(text)) == text


@pytest.mark.parametrize(
    "text", [b"", b"{", b"1, 2", b'1, "queue": "other"', b"NaN", b"'a'", b'"\xff"', b"[" * 100_000]
)
def test_raw_text_that_is_not_one_value_is_refused(text):
    """It could change the request around it."""
    with pytest.raises(InvalidValue, match="not JSON"):
        to_json(Raw(text))


def test_texts_are_put_together_to_objects():
    """Members that are None are left out; texts go in unchanged, null among them."""
    assert object_text({"a": 1, "b": None, "c": False, "d": []}, e=b"1.0", f=b"null") == (
        b'{"a":1,"c":false,"d":[],"e":1.0,"f":null}'
    )
    assert object_text({}) == b"{}"
    assert array_text([]) == b"[]"
    assert array_text([b"1", b"{}"]) == b"[1,{}]"


def test_text_that_python_does_not_read_is_told():
    """An integer with more digits than the interpreter allows is no crash of a foreign kind."""
    with pytest.raises(InvalidValue, match="digits"):
        from_json(b"1" * 5_000)
