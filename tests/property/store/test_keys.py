"""Keys of tables: bytes sort as parts do, come back as they were, and share their prefix's bytes."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from eventjobs.domain.projection import Part, Table
from eventjobs.store.keys import NUMBER_MAX, NUMBER_MIN, KeyCodec

VALUES = {
    Part.NAME: st.text(st.characters(min_codepoint=1, max_codepoint=0x7E), min_size=1, max_size=6),
    Part.NUMBER: st.integers(NUMBER_MIN, NUMBER_MAX) | st.integers(-2, 2),
    Part.UUID: st.integers(0, 2**128 - 1).map(lambda number: str(UUID(int=number))),
    Part.DIGEST: st.binary(min_size=32, max_size=32),
}
NAMES = st.lists(st.just(Part.NAME), max_size=3)
OTHERS = st.lists(st.sampled_from([Part.NUMBER, Part.UUID, Part.DIGEST]), max_size=3)


@st.composite
def tables_and_keys(draw: st.DrawFn, keys: int) -> tuple[KeyCodec, list[tuple]]:
    """A table's codec and some keys; parts are drawn from few values, so that keys often share their first ones."""
    table = Table("t", tuple(draw(NAMES) + draw(OTHERS)))
    choices = [draw(st.lists(VALUES[part], min_size=1, max_size=2)) for part in table.key]
    return KeyCodec(table), [tuple(draw(st.sampled_from(values)) for values in choices) for _ in range(keys)]


@given(tables_and_keys(keys=1))
def test_a_key_comes_back(drawn):
    """Decoding gives the parts that were encoded, and different keys have different bytes."""
    codec, (key,) = drawn
    assert codec.decode(codec.encode(key)) == key


@given(tables_and_keys(keys=6))
def test_bytes_sort_as_parts_do(drawn):
    """The order of the bytes is the order of the tuples."""
    codec, keys = drawn
    assert sorted(keys) == [codec.decode(data) for data in sorted(map(codec.encode, keys))]


@given(tables_and_keys(keys=6), st.data())
def test_a_prefix_covers_exactly_its_keys(drawn, data):
    """A key starts with a prefix's bytes exactly when its first parts are the prefix."""
    codec, keys = drawn
    length = data.draw(st.integers(0, len(keys[0])))
    prefix = keys[0][:length]
    covered = {key for key in keys if codec.encode(key).startswith(codec.encode_prefix(prefix))}
    assert covered == {key for key in keys if key[:length] == prefix}
    assert codec.encode_prefix(keys[0]) == codec.encode(keys[0])
