"""What is stored: the checksum around every value, and records and rows that are not what this version can read."""

from __future__ import annotations

import json
import zlib

import msgspec
import pytest

from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.evolve import evolve
from eventjobs.store.codec import decode_job, decode_record, encode_job, encode_record, seal, unseal
from eventjobs.store.contract import Corrupt, StoreError
from eventjobs.testing import builders as b

RECORD = Record(7, b.JOB_ID, 1, b.START, Actor(ActorType.PRODUCER, "producer-1"), b.enqueued())


def altered(**members: object) -> bytes:
    """RECORD's text with some members changed."""
    return json.dumps(json.loads(encode_record(RECORD)) | members).encode()


def test_a_record_reads_as_the_specification_shows_it():
    """The text is one JSON object with exactly the members the log's format names, in that order."""
    document = json.loads(encode_record(RECORD))
    assert list(document) == ["position", "job_id", "version", "type", "format_version", "time", "actor", "data"]
    assert document["type"] == "job_enqueued" and document["format_version"] == 1
    assert document["actor"] == {"type": "producer", "id": "producer-1"}
    assert document["data"]["retry_policy"] == {"type": "exponential", "base": 1, "max_delay": 300, "jitter": 0.5}


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_a_newer_format_of_an_event_is_refused(name):
    """A record of a format this version does not know says which it is and what to do."""
    newer = EVENT_TYPES[name].format_version + 1
    with pytest.raises(StoreError, match=rf"record 7 is a {name} of format {newer}.*newer eventjobs") as caught:
        decode_record(altered(type=name, format_version=newer, data={"anything": ["goes"]}))
    assert not isinstance(caught.value, Corrupt)


def test_an_unknown_event_is_refused():
    """An event type this version does not know is one of a newer version."""
    with pytest.raises(StoreError, match="record 7 is a job_paused of format 1") as caught:
        decode_record(altered(type="job_paused"))
    assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"position": 1}',
        altered(position="7"),
        altered(data={}),
        altered(data=None),
        altered(actor={"type": "robot", "id": "x"}),
        encode_record(RECORD)[:-1],
        encode_record(RECORD).replace(b"exponential", b"polynomial"),
        encode_record(RECORD).replace(b'"jitter"', b'"shiver"'),
        encode_record(RECORD).replace(b"default", b"def\xffult"),
    ],
)
def test_a_broken_record_is_corrupt(text):
    """A text that is no record is found, whatever is wrong with it."""
    with pytest.raises(Corrupt, match="a record cannot be read"):
        decode_record(text)


@pytest.mark.parametrize("row", [b"", b"\xc1", msgspec.msgpack.encode([]), msgspec.msgpack.encode({"id": 1})])
def test_a_broken_job_row_is_corrupt(row):
    """Bytes that are no job row are found."""
    with pytest.raises(Corrupt, match="a job row cannot be read"):
        decode_job(row)


@pytest.mark.parametrize(
    ("old", "new"), [(b"default", b"def\xffult"), (b"queued", b"queuee"), (b"exponential", b"exponentiax")]
)
def test_a_job_row_with_a_foreign_text_is_corrupt(old, new):
    """Text that is not UTF-8, a state or a policy that does not exist: all are found."""
    row = encode_job(evolve(None, RECORD))
    assert old in row
    with pytest.raises(Corrupt, match="a job row cannot be read"):
        decode_job(row.replace(old, new))


def test_the_checksum_is_the_one_of_the_specification():
    """A stored value is 4 bytes CRC-32 of key and value, big-endian, then the value."""
    assert seal(b"key", b"value") == zlib.crc32(b"keyvalue").to_bytes(4, "big") + b"value"
    assert unseal(b"key", seal(b"key", b"value"), "here") == b"value"


@pytest.mark.parametrize("stored", [b"", b"\0", b"\0\0\0", b"\0\0\0\0"])
def test_a_value_too_short_for_its_checksum_is_corrupt(stored):
    """What is cut off is found, and the place is named."""
    with pytest.raises(Corrupt, match="jobs: the value under key 6b6579"):
        unseal(b"key", stored, "jobs")


def test_a_value_under_another_key_is_corrupt():
    """Two values that were swapped are found: the checksum covers the key."""
    with pytest.raises(Corrupt):
        unseal(b"kez", seal(b"key", b"value"), "jobs")
