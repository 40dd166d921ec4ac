"""Keys of tables: their exact bytes, and what is refused."""

from __future__ import annotations

import struct

import pytest

from eventjobs.domain.limits import NAME_LENGTH_MAX
from eventjobs.domain.projection import Part, Table
from eventjobs.store.indexes import INDEXES
from eventjobs.store.keys import NUMBER_MAX, NUMBER_MIN, KeyCodec, uuid_bytes, uuid_text

KEY_BYTES_MAX = 511
"""What LMDB takes."""

ID = "0190a1b2-c3d4-7e5f-8a6b-0c1d2e3f4a5b"


def test_a_name_ends_with_a_zero_byte():
    """A name is its ASCII text and one 0 byte."""
    codec = KeyCodec(Table("t", (Part.NAME, Part.NAME)))
    assert codec.encode(("a", "bc")) == b"a\0bc\0"


@pytest.mark.parametrize(
    ("number", "digits"),
    [
        (0, "80" + "00" * 7),
        (1, "80" + "00" * 6 + "01"),
        (-1, "7f" + "ff" * 7),
        (NUMBER_MIN, "00" * 8),
        (NUMBER_MAX, "ff" * 8),
    ],
)
def test_a_number_turns_its_sign_bit(number, digits):
    """A number is 8 bytes, big-endian, the sign bit turned, so that bytes sort as numbers do."""
    codec = KeyCodec(Table("t", (Part.NUMBER,)))
    assert codec.encode((number,)).hex() == digits
    assert codec.decode(bytes.fromhex(digits)) == (number,)


@pytest.mark.parametrize("number", [NUMBER_MAX + 1, NUMBER_MIN - 1])
def test_a_number_beyond_64_bits_is_an_error(number):
    """Nothing wraps around."""
    with pytest.raises(struct.error):
        KeyCodec(Table("t", (Part.NUMBER,))).encode((number,))


def test_uuid_and_digest_are_their_bytes():
    """A UUID takes 16 bytes, a digest 32."""
    codec = KeyCodec(Table("t", (Part.UUID, Part.DIGEST)))
    assert codec.encode((ID, b"\xff" * 32)) == bytes.fromhex(ID.replace("-", "")) + b"\xff" * 32
    assert uuid_text(uuid_bytes(ID)) == ID


def test_a_name_with_a_percent_sign_is_only_a_name():
    """Names are data, never a pattern."""
    codec = KeyCodec(Table("t", (Part.NAME, Part.NUMBER)))
    assert codec.decode(codec.encode(("%s%d%%", 7))) == ("%s%d%%", 7)


def test_names_must_come_first():
    """A table whose names come late is refused when it is declared: its keys would not sort."""
    with pytest.raises(ValueError, match="names must come before"):
        KeyCodec(Table("t", (Part.NUMBER, Part.NAME)))


@pytest.mark.parametrize("stored", [b"", b"a\0", b"a\0" + bytes(7), b"a\0b\0" + bytes(8), bytes(8)])
def test_bytes_that_are_no_key_of_the_table_are_refused(stored):
    """Too few bytes, or another count of names, is an error and no key."""
    codec = KeyCodec(Table("t", (Part.NAME, Part.NUMBER)))
    with pytest.raises((ValueError, struct.error)):
        codec.decode(stored)


def test_the_longest_keys_fit():
    """Keys of names at their limit stay below what LMDB takes."""
    parts = {Part.NAME: "n" * NAME_LENGTH_MAX, Part.NUMBER: NUMBER_MAX, Part.UUID: ID, Part.DIGEST: bytes(32)}
    tables = [table for projection in INDEXES for table in projection.tables]
    longest = Table("t", (Part.NAME, Part.NAME, Part.NAME, Part.NUMBER, Part.NUMBER, Part.NUMBER))
    for table in [*tables, longest]:
        key = KeyCodec(table).encode(tuple(parts[part] for part in table.key))
        assert len(key) <= KEY_BYTES_MAX, table.name
