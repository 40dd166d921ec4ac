"""Bytes of what is stored: records, contents, job rows, and the checksum around every value.

A record is JSON and is never written twice: its bytes are what the tree's leaf hashes and what an audit reads. A
job row is a projection that can be thrown away, so it may be terse (MessagePack arrays).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from attrs import frozen

from eventjobs.domain.commands import Actor
from eventjobs.domain.content import SALT_BYTES, Content
from eventjobs.domain.events import EVENT_TYPES, Record
from eventjobs.domain.job import ContentRef, DeathCause, Job, JobSpec, Lapse, Lease, State
from eventjobs.domain.retry import RetryPolicy, policy_from
from eventjobs.store.contract import Corrupt, StoreError

CRC_BYTES = 4


def seal(key: bytes, value: bytes) -> bytes:
    """The value as stored: CRC-32 of key and value (big-endian), then the value."""
    return zlib.crc32(value, zlib.crc32(key)).to_bytes(CRC_BYTES, "big") + value


def unseal(key: bytes, stored: bytes, where: str) -> bytes:
    """The value under a checksum. Raises Corrupt, naming `where`, when key and value are not what was written."""
    value = stored[CRC_BYTES:]
    if zlib.crc32(value, zlib.crc32(key)).to_bytes(CRC_BYTES, "big") != stored[:CRC_BYTES]:
        raise Corrupt(f"{where}: the value under key {key.hex()} does not match its checksum")
    return value


# Records --------------------------------------------------------------------------------------------------------


class _Envelope(msgspec.Struct, gc=False):
    """A record's members as they are written. The actor is read as one, and written from its text."""

    position: int
    job_id: str
    version: int
    type: str
    format_version: int
    time: int
    actor: Actor
    data: msgspec.Raw


@frozen
class Outline:
    """What every record says, whatever its type and format."""

    position: int
    job_id: str
    time: int


def _decode_custom(wanted: type, value: object) -> object:
    if wanted is RetryPolicy and isinstance(value, dict):
        return _shared_policy(*value, *value.values())
    raise TypeError(f"no way to read a {wanted}")


@lru_cache(1_024, typed=True)
def _shared_policy(*names_and_values: object) -> RetryPolicy:
    """Jobs of a kind share their policy. Numbers are told apart by their types, as a row is written with 1 or 1.0."""
    half = len(names_and_values) // 2
    return policy_from(dict(zip(names_and_values[:half], names_and_values[half:], strict=True)))


_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_outline = msgspec.json.Decoder(Outline).decode
_decode_event = {name: msgspec.json.Decoder(cls, dec_hook=_decode_custom).decode for name, cls in EVENT_TYPES.items()}


def encode_record(record: Record) -> bytes:
    """The record's JSON text in UTF-8: the bytes under the leaf hash. The members of actor and data are sorted."""
    event = record.event
    return _encode(
        _Envelope(
            record.position,
            record.job_id,
            record.version,
            event.type,
            event.format_version,
            record.time,
            msgspec.Raw(_encode_sorted(record.actor)),
            msgspec.Raw(_encode_sorted(event)),
        )
    )


def decode_record(text: bytes) -> Record:
    """The record a stored text stands for. Raises Corrupt for a broken one, StoreError for a newer format.

    An event of an older format is lifted to the newest (UPCASTERS); its text, and so its hash, stays what it is.
    """
    try:
        envelope = _decode_envelope(text)
        cls = EVENT_TYPES.get(envelope.type)
        if cls is None or envelope.format_version > cls.format_version:
            known = "no such event" if cls is None else f"formats up to {cls.format_version}"
            raise StoreError(
                f"record {envelope.position} is a {envelope.type} of format {envelope.format_version}, "
                f"which a newer eventjobs wrote; this one knows {known}; use that version"
            )
        data = envelope.data
        if envelope.format_version != cls.format_version:
            data = _lifted(envelope, cls.format_version)
        event = _decode_event[envelope.type](data)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise Corrupt(f"a record cannot be read: {error}") from error
    return Record(envelope.position, envelope.job_id, envelope.version, envelope.time, envelope.actor, event)


def is_of_older_format(text: bytes, record: Record) -> bool:
    """Whether the record was lifted when it was decoded from the text, which then is not what `encode_record` makes."""
    return _decode_envelope(text).format_version != record.event.format_version


def decode_outline(text: bytes) -> Outline:
    """What the record of a stored text says of its place. Raises Corrupt for a broken one."""
    try:
        return _decode_outline(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"a record cannot be read: {error}") from error


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the data of an event out of that of the format before; it is given a dictionary of its own."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""By type and format version: what lifts an event of this version to the next one. No event has an older one yet.

Whoever raises the format version of an event adds the way up from the version before, and a golden store that has it.
"""


def _lifted(envelope: _Envelope, wanted: int) -> bytes:
    """The data of an older event in the wanted format, step by step. Raises Corrupt for a format that never was."""
    data = msgspec.json.decode(envelope.data, type=dict[str, Any])
    for version in range(envelope.format_version, wanted):
        lift = UPCASTERS.get((envelope.type, version))
        if lift is None:
            raise Corrupt(f"record {envelope.position} is a {envelope.type} of format {version}, which there never was")
        data = lift(data)
    return _encode(data)


# Contents -------------------------------------------------------------------------------------------------------


def encode_content(content: Content) -> bytes:
    """Salt, then text."""
    return content.salt + content.text


def decode_content(value: bytes) -> Content:
    """The content that `encode_content` stored."""
    return Content(value[SALT_BYTES:], value[:SALT_BYTES])


# Job rows -------------------------------------------------------------------------------------------------------


class _Row(msgspec.Struct, array_like=True):
    """A job, flat. A reference to a content is (position, size); a lease (worker, expires_at, duration, leased_at).

    The last two are left out of the row of a job that is whole.
    """

    id: str
    position: int
    kind: str
    queue: str
    priority: int
    max_attempts: int
    retry_policy: msgspec.Raw
    idempotency_key: str | None
    asked_run_at: int | None
    asked_delay: int | None
    payload_size: int | None
    created_at: int
    version: int
    state: State
    attempts: int
    run_at: int
    lease_token: int
    lease: tuple[str, int, int, int] | None
    result: tuple[int, int] | None
    error: tuple[int, int] | None
    lapse: tuple[str, int] | None
    death_cause: DeathCause | None
    updated_at: int
    finished_at: int | None
    erased: tuple[str, ...] = ()
    retired: bool = False


_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(_Row).decode


@lru_cache(1_024)
def _policy(packed: bytes) -> RetryPolicy:
    """Jobs of a kind share their policy: it is unpacked once."""
    return policy_from(msgspec.msgpack.decode(packed))


def encode_job(job: Job) -> bytes:
    """The job as a row."""
    spec, lease, lapse = job.spec, job.lease, job.lapse
    return _encode_row(
        (
            spec.id,
            spec.position,
            spec.kind,
            spec.queue,
            spec.priority,
            spec.max_attempts,
            spec.retry_policy,
            spec.idempotency_key,
            spec.asked_run_at,
            spec.asked_delay,
            None if spec.payload is None else spec.payload.size,
            spec.created_at,
            job.version,
            job.state,
            job.attempts,
            job.run_at,
            job.lease_token,
            None if lease is None else (lease.worker, lease.expires_at, lease.duration, lease.leased_at),
            None if job.result is None else (job.result.position, job.result.size),
            None if job.error is None else (job.error.position, job.error.size),
            None if lapse is None else (lapse.worker, lapse.expires_at),
            job.death_cause,
            job.updated_at,
            job.finished_at,
            *((job.erased, job.retired) if job.erased or job.retired else ()),
        )
    )


def decode_job(row: bytes) -> Job:
    """The job of a row. Raises Corrupt when the row is not one."""
    try:
        r = _decode_row(row)
        policy = _policy(bytes(r.retry_policy))
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise Corrupt(f"a job row cannot be read: {error}") from error
    spec = JobSpec(
        r.id,
        r.position,
        r.kind,
        r.queue,
        r.priority,
        r.max_attempts,
        policy,
        r.idempotency_key,
        r.asked_run_at,
        r.asked_delay,
        None if r.payload_size is None else ContentRef(r.position, r.payload_size),
        r.created_at,
    )
    return Job(
        spec,
        r.version,
        r.state,
        r.attempts,
        r.run_at,
        r.lease_token,
        None if r.lease is None else Lease(*r.lease),
        None if r.result is None else ContentRef(*r.result),
        None if r.error is None else ContentRef(*r.error),
        None if r.lapse is None else Lapse(*r.lapse),
        r.death_cause,
        r.updated_at,
        r.finished_at,
        r.erased,
        r.retired,
    )
