"""What the client writes is what everybody else reads, for every value JSON can say."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.client.requests import NewJob
from eventjobs.client.values import Raw, from_json, to_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_every_value_survives_the_round_trip(value):
    """Equal in value and in text: types, digits and order are kept."""
    text = to_json(value)
    assert repr(from_json(text)) == repr(value)
    assert to_json(from_json(text)) == text == to_json(Raw(text))


@given(VALUES, st.text(min_size=1), st.integers(-100, 100))
def test_every_request_reads_as_it_was_meant(payload, kind, priority):
    """Whatever the members hold, the body is one object with exactly them."""
    body = json.loads(NewJob(kind, payload, priority=priority).text("key"))
    assert repr(body.pop("payload")) == repr(payload)
    assert body == {"kind": kind, "priority": priority, "idempotency_key": "key"}
