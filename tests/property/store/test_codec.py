"""Bytes of what is stored, for every event and every job: they come back as they were, or not at all."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventjobs.domain import events as e
from eventjobs.domain import job as j
from eventjobs.domain import retry
from eventjobs.domain.commands import Actor, ActorType
from eventjobs.domain.content import SALT_BYTES, Content, ContentDigest
from eventjobs.domain.limits import CONTENT_BYTES_MAX, PRIORITY_MAX, PRIORITY_MIN, RETRY_DELAY_SECONDS_MAX
from eventjobs.domain.value import Value, field_names
from eventjobs.store.codec import (
    decode_content,
    decode_job,
    decode_record,
    encode_content,
    encode_job,
    encode_record,
    seal,
    unseal,
)
from eventjobs.store.contract import Corrupt, StoreError

TIME = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = st.text("abcXYZ019._:/@-", min_size=1, max_size=20)
ID = st.uuids().map(str)
SIZE = st.integers(0, CONTENT_BYTES_MAX)
DIGEST = st.builds(ContentDigest, SIZE, st.binary(min_size=32, max_size=32).map(bytes.hex))
SECONDS = st.floats(0, RETRY_DELAY_SECONDS_MAX) | st.integers(0, RETRY_DELAY_SECONDS_MAX)
POLICY = (
    st.builds(retry.Exponential, base=SECONDS, max_delay=SECONDS, jitter=st.floats(0, 1))
    | st.builds(retry.Linear, base=SECONDS, max_delay=SECONDS, jitter=st.floats(0, 1))
    | st.builds(retry.Constant, base=SECONDS)
)
ACTOR = st.builds(Actor, st.sampled_from(ActorType), TEXT)
REF = st.builds(j.ContentRef, COUNT, SIZE)


def maybe(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


POSITIONS = st.lists(COUNT, max_size=3).map(tuple)
EVENT = st.one_of(
    st.builds(
        e.JobEnqueued,
        NAME,
        NAME,
        st.integers(PRIORITY_MIN, PRIORITY_MAX),
        COUNT,
        POLICY,
        maybe(TEXT),
        maybe(TIME),
        maybe(COUNT),
        TIME,
        maybe(DIGEST),
    ),
    st.builds(e.JobLeased, TEXT, COUNT, COUNT, TIME, COUNT, maybe(TEXT)),
    st.builds(e.LeaseRenewed, COUNT, TIME),
    st.builds(e.LeaseReleased, COUNT, TIME),
    st.builds(e.LeaseExpired, COUNT, COUNT, TIME),
    st.builds(e.JobCompleted, COUNT, COUNT, maybe(DIGEST)),
    st.builds(e.AttemptFailed, COUNT, COUNT, TIME, DIGEST),
    st.builds(e.JobDied, st.sampled_from(j.DeathCause), COUNT, COUNT, maybe(DIGEST)),
    st.builds(e.JobCanceled, maybe(TEXT)),
    st.builds(e.JobRequeued, TIME),
    st.builds(e.ContentsErased, maybe(COUNT), maybe(COUNT), POSITIONS, maybe(TEXT)),
    st.builds(e.JobRetired, maybe(COUNT), maybe(COUNT), POSITIONS, TEXT),
    st.builds(e.IdempotencyKeyForgotten, TEXT),
)
RECORD = st.builds(e.Record, COUNT, ID, COUNT, TIME, ACTOR, EVENT)


@st.composite
def jobs(draw: st.DrawFn) -> j.Job:
    """A job of any shape, those the lifecycle never makes among them."""
    position = draw(COUNT)
    payload = draw(maybe(SIZE.map(lambda size: j.ContentRef(position, size))))
    spec = j.JobSpec(
        draw(ID),
        position,
        draw(NAME),
        draw(NAME),
        draw(st.integers(PRIORITY_MIN, PRIORITY_MAX)),
        draw(COUNT),
        draw(POLICY),
        draw(maybe(TEXT)),
        draw(maybe(TIME)),
        draw(maybe(COUNT)),
        payload,
        draw(TIME),
    )
    return j.Job(
        spec,
        draw(COUNT),
        draw(st.sampled_from(j.State)),
        draw(COUNT),
        draw(TIME),
        draw(COUNT),
        draw(maybe(st.builds(j.Lease, TEXT, TIME, COUNT, TIME))),
        draw(maybe(REF)),
        draw(maybe(REF)),
        draw(maybe(st.builds(j.Lapse, TEXT, TIME))),
        draw(maybe(st.sampled_from(j.DeathCause))),
        draw(TIME),
        draw(maybe(TIME)),
        draw(st.sampled_from([(), (j.PAYLOAD,), (j.PAYLOAD, j.RESULT, j.ERROR)])),
        draw(st.booleans()),
    )


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit turned."""
    place = bit // 8 % len(data)
    return data[:place] + bytes([data[place] ^ 1 << bit % 8]) + data[place + 1 :]


def exact(value: Any) -> Any:
    """The value and its types all the way down: 1, 1.0 and True are equal and yet not the same."""
    if isinstance(value, Value):
        return type(value), [exact(getattr(value, name)) for name in field_names(type(value))]
    if attrs.has(type(value)):
        return type(value), [exact(getattr(value, field.name)) for field in attrs.fields(type(value))]
    return type(value), value


@given(RECORD)
def test_a_record_comes_back(record):
    """Every event's record is read as it was written, to the last type, and written again as the same bytes."""
    text = encode_record(record)
    read = decode_record(text)
    assert exact(read) == exact(record)
    assert encode_record(read) == text


@given(jobs())
def test_a_job_row_comes_back(job):
    """Every job is read as it was written, to the last type."""
    assert exact(decode_job(encode_job(job))) == exact(job)


@given(st.binary(max_size=200), st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES))
def test_a_content_comes_back(text, salt):
    """Text and salt are kept apart, whatever bytes they are made of."""
    assert decode_content(encode_content(Content(text, salt))) == Content(text, salt)


@given(st.binary(min_size=1, max_size=511), st.binary(max_size=300), st.integers(0, 10_000))
@example(b"k", b"", 0)
def test_no_flipped_bit_goes_unseen(key, value, bit):
    """One bit turned in the checksum, the value or the key is found."""
    stored = seal(key, value)
    assert unseal(key, stored, "here") == value
    with pytest.raises(Corrupt):
        unseal(key, flipped(stored, bit), "here")
    with pytest.raises(Corrupt):
        unseal(flipped(key, bit), stored, "here")


@given(st.binary(max_size=60))
def test_foreign_bytes_are_no_record_and_no_row(data):
    """Whatever bytes are read, the answer is a record or a StoreError and never another error."""
    for decode in (decode_record, decode_job):
        with pytest.raises(StoreError):
            decode(data)


@given(RECORD, st.integers(0, 10_000))
def test_a_damaged_record_never_stops_the_reader_in_another_way(record, bit):
    """A record with a flipped bit is another record or a StoreError."""
    try:
        read = decode_record(flipped(encode_record(record), bit))
    except StoreError:
        return
    assert isinstance(read, e.Record)


@given(jobs(), st.integers(0, 10_000))
def test_a_damaged_row_never_stops_the_reader_in_another_way(job, bit):
    """A job row with a flipped bit is another job or Corrupt."""
    try:
        read = decode_job(flipped(encode_job(job), bit))
    except Corrupt:
        return
    assert isinstance(read, j.Job)
