"""Members: the fields of one JSON object, taken one by one. What is wrong with them gathers as faults.

Null means absent for every field except contents. After a fault a field reads as None, so that reading goes on and
finds the others; nothing may be made of the values before `Faults.refuse_if_any` was asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TypeVar

import msgspec

from eventjobs.api.doubled import given_twice
from eventjobs.api.faults import Faults, Unfit
from eventjobs.api.json_depth import deeper_than
from eventjobs.api.problems import Problem, Refused
from eventjobs.api.values import UNREADABLE, Check
from eventjobs.domain.limits import CONTENT_BYTES_MAX, FAULTS_REPORTED_MAX, JSON_DEPTH_MAX

T = TypeVar("T")

BEYOND_EVERY_BOUND = 2**64

_value = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WITH_COLONS = ("payload", "result", "error", "type", "message", "traceback", "jobs", "queues", "kinds")
"""The members that may hold colons by the thousand."""
_with_colons = msgspec.json.Decoder(
    msgspec.defstruct("WithColons", [(field, msgspec.Raw, None) for field in _WITH_COLONS], gc=False)
)
_list = msgspec.json.Decoder(list[msgspec.Raw])


class Members:
    """The members of the object at `path` ("" for the body itself)."""

    __slots__ = ("_faults", "_members", "_path")

    def __init__(self, members: dict[str, msgspec.Raw], faults: Faults, path: str = "") -> None:
        self._members = members
        self._faults = faults
        self._path = path

    def fault(self, field: str, message: str) -> None:
        """Say what is wrong with a field."""
        self._faults.add(f"{self._path}.{field}" if self._path else field, message)

    def read(self, field: str, check: Check[T], default: T | None = None) -> T | None:
        """The field's value, `default` when it is absent."""
        raw = self._members.pop(field, None)
        if raw is None or (value := _decoded(raw)) is None:
            return default
        try:
            return check(value)
        except Unfit as unfit:
            self.fault(field, str(unfit))
            return None

    def require(self, field: str, check: Check[T]) -> T | None:
        """The value of a field that has to be there."""
        if self.gives(field):
            return self.read(field, check)
        self._members.pop(field, None)
        self.fault(field, "is required")
        return None

    def gives(self, field: str) -> bool:
        """Whether the field is there, and not null."""
        raw = self._members.get(field)
        return raw is not None and bytes(raw) != b"null"

    def read_list(self, field: str, check: Check[T], least: int, most: int) -> tuple[T, ...] | None:
        """A list of `least` to `most` values that pass the check; one given twice counts once. None when absent."""
        if not self.gives(field):
            self._members.pop(field, None)
            return None
        found = []
        for path, raw in self._items(field, least, most):
            try:
                found.append(check(_decoded(raw)))
            except Unfit as unfit:
                self._faults.add(path, str(unfit))
        return tuple(dict.fromkeys(found))

    def require_objects(self, field: str, most: int) -> list[Members]:
        """The members of each object of a list that has to be there; what is no object is left out, with a fault."""
        if not self.gives(field):
            self._members.pop(field, None)
            self.fault(field, "is required")
            return []
        found = []
        for path, raw in self._items(field, 0, most):
            try:
                found.append(members_in(bytes(raw), self._faults, path))
            except msgspec.ValidationError:
                self._faults.add(path, "must be an object")
            except Unfit as unfit:
                self._faults.add(path, str(unfit))
        return found

    def nested(self, field: str) -> Members | None:
        """The members of a field that holds an object; None, and the field still unread, when it holds none."""
        raw = self._members.get(field)
        if raw is None or not bytes(raw).startswith(b"{"):
            return None
        path = f"{self._path}.{field}" if self._path else field
        try:
            members = members_in(bytes(raw), self._faults, path)
        except Unfit as unfit:
            self._faults.add(path, str(unfit))
            return None
        del self._members[field]
        return members

    def content(self, field: str) -> bytes | None:
        """The JSON text of a payload or result as it was sent; None for null. Raises Refused (413) when too large."""
        raw = self._members.pop(field, None)
        if raw is None or (text := bytes(raw)) == b"null":
            return None
        if len(text) > CONTENT_BYTES_MAX:
            where = f"{self._path}.{field}" if self._path else field
            detail = f"{where} has {len(text)} bytes; the limit is {CONTENT_BYTES_MAX}"
            raise Refused(Problem("too_large", detail))
        if deeper_than(JSON_DEPTH_MAX, text):
            self.fault(field, f"is nested deeper than {JSON_DEPTH_MAX} levels")
        return text

    def end(self) -> None:
        """Say that every field was asked for: what is left is unknown."""
        for field in islice(self._members, FAULTS_REPORTED_MAX):
            self.fault(field, "is no field of this object")
        self._faults.leave_out(max(0, len(self._members) - FAULTS_REPORTED_MAX))

    def _items(self, field: str, least: int, most: int) -> Iterator[tuple[str, msgspec.Raw]]:
        """Path and text of the items of a list; those beyond the limit are not looked at."""
        raw = self._members.pop(field)
        try:
            items = _items_up_to(most + 1, raw)
        except msgspec.ValidationError:
            self.fault(field, "must be a list")
            return
        if not least <= len(items) <= most:
            has = "more" if len(items) > most else len(items)
            self.fault(field, f"must have {least} to {most} items; it has {has}")
        path = f"{self._path}.{field}" if self._path else field
        for index, item in enumerate(items[:most]):
            yield f"{path}[{index}]", item


def members_in(text: bytes, faults: Faults, path: str = "") -> Members:
    """The members of the object at `path`; a fault says if one is given twice. Raises as `object_of` does."""
    found = object_of(text)
    members = Members(found, faults, path)
    if (name := given_twice(text, found)) is not None:
        members.fault(name, "is given twice")
    return members


def object_of(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object; of one name given twice the last. Raises msgspec.DecodeError for other text, and Unfit,
    before they are made, for more members than there can be faults to list."""
    colons = text.count(b":")
    if colons > FAULTS_REPORTED_MAX:
        known = msgspec.structs.astuple(_with_colons.decode(text))
        colons -= sum(bytes(raw).count(b":") for raw in known if raw is not None)
        if colons > FAULTS_REPORTED_MAX:
            raise Unfit("has too many members that are no fields of this object")
    return _object.decode(text)


def _items_up_to(most: int, raw: msgspec.Raw) -> Sequence[msgspec.Raw]:
    """The items of a list, and of a longer one the first `most`: those beyond are passed over without being made."""
    if bytes(raw).count(b",") < most:
        return _list.decode(raw)
    items = msgspec.structs.astuple(_beginning_of_list(most).decode(raw))
    return items[: items.index(None)] if items[-1] is None else items


@cache
def _beginning_of_list(length: int) -> msgspec.json.Decoder:
    """Reads a list as a struct of `length` fields: what is missing is None, what is beyond is skipped."""
    fields = [(f"item_{index}", msgspec.Raw, None) for index in range(length)]
    return msgspec.json.Decoder(msgspec.defstruct("BeginningOfList", fields, array_like=True))


def _decoded(raw: msgspec.Raw) -> object:
    """The value as a check takes it. No check takes a list or an object, which therefore are not made."""
    if bytes(raw).startswith((b"[", b"{")):
        return UNREADABLE
    try:
        return _value.decode(raw)
    except msgspec.ValidationError:  # the syntax was checked: a number is beyond what can be read
        return _out_of_range(bytes(raw))


def _out_of_range(literal: bytes) -> float:
    """A stand-in for the number: of its sort and sign, and like it beyond every bound."""
    size = BEYOND_EVERY_BOUND if literal.lstrip(b"-").isdigit() else math.inf
    return -size if literal.startswith(b"-") else size
