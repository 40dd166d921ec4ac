"""What a program asks of a coordinator, as values that know their JSON text. None means: left out."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime

from attrs import frozen

from eventjobs.client.errors import InvalidValue
from eventjobs.client.values import object_text, to_json


@frozen
class NewJob:
    """A job to enqueue.

    `payload` is anything JSON can say (a `Raw` goes in as it is). At most one of `run_at` (an aware datetime) and
    `delay_seconds` is given. `retry_policy` is a mapping such as {"type": "linear", "base": 5}, or the name of one to
    be used with its defaults. Two requests with the same `idempotency_key` make one job; without a key the client
    makes one up, so that a repeat after a lost answer does not enqueue twice.
    """

    kind: str
    payload: object = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    retry_policy: Mapping[str, object] | str | None = None
    idempotency_key: str | None = None

    def text(self, fallback_key: str) -> bytes:
        """The JSON text of the job, under its own idempotency key or else the given one."""
        return object_text(self._members(fallback_key), payload=self.payload_text())

    def members_text(self) -> bytes:
        """The JSON text of the job without its payload, under its own idempotency key if it has one."""
        return object_text(self._members(None))

    def payload_text(self) -> bytes:
        """The JSON text of the payload."""
        return to_json(self.payload, "payload")

    def _members(self, fallback_key: str | None) -> dict[str, object]:
        return {
            "kind": self.kind,
            "queue": self.queue,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "run_at": None if self.run_at is None else _moment(self.run_at),
            "delay_seconds": self.delay_seconds,
            "retry_policy": None if self.retry_policy is None else _policy(self.retry_policy),
            "idempotency_key": fallback_key if self.idempotency_key is None else self.idempotency_key,
        }


@frozen
class Renewal:
    """A lease to renew, for `lease_seconds` from now or for the length it was taken with."""

    id: str
    token: int
    lease_seconds: float | None = None

    def text(self) -> bytes:
        """The JSON text of the item."""
        return object_text({"id": self.id, "token": self.token, "lease_seconds": self.lease_seconds})


@frozen
class Completion:
    """A job that succeeded, with its result (anything JSON can say)."""

    id: str
    token: int
    result: object = None

    def text(self) -> bytes:
        """The JSON text of the item."""
        return object_text({"id": self.id, "token": self.token}, result=to_json(self.result, "result"))


@frozen
class Failure:
    """An attempt that failed.

    `error` is a text or {type, message, traceback?}. Without `retry` the job is dead at once; `retry_in_seconds`
    overrides the delay of the job's policy.
    """

    id: str
    token: int
    error: str | Mapping[str, str]
    retry: bool = True
    retry_in_seconds: float | None = None

    def text(self) -> bytes:
        """The JSON text of the item."""
        members = {"id": self.id, "token": self.token, "error": error_member(self.error), "retry": self.retry}
        return object_text({**members, "retry_in_seconds": self.retry_in_seconds})


def error_member(error: str | Mapping[str, str]) -> str | dict[str, str]:
    """What went wrong as a request says it. Raises InvalidValue for what is neither text nor mapping."""
    if isinstance(error, str):
        return error
    if not isinstance(error, Mapping):
        raise InvalidValue(f"error is a text or a mapping of type and message, unlike {reprlib.repr(error)}")
    return dict(error)


def _policy(policy: Mapping[str, object] | str) -> dict[str, object]:
    if isinstance(policy, str):
        return {"type": policy}
    if not isinstance(policy, Mapping):
        raise InvalidValue(f"retry_policy is a mapping or a policy's name, unlike {reprlib.repr(policy)}")
    return dict(policy)


def _moment(time: datetime) -> str:
    if not isinstance(time, datetime):
        raise InvalidValue(f"run_at is a time (an aware datetime), unlike {reprlib.repr(time)}")
    if time.utcoffset() is None:
        raise InvalidValue("run_at names no time zone; give an aware datetime")
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
