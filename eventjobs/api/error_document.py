"""Errors as workers report them: a text, or {type, message, traceback?}. Long texts are cut, and say so."""

from __future__ import annotations

import orjson

from eventjobs.api.faults import Unfit
from eventjobs.api.members import Members
from eventjobs.api.values import text
from eventjobs.domain.limits import ERROR_TEXT_BYTES_MAX

FIELD = "error"
TYPE_OF_A_BARE_TEXT = "Error"


def read_error(item: Members) -> bytes:
    """The error as a JSON document. After a fault it means nothing."""
    error = item.nested(FIELD)
    if error is None:
        message = item.require(FIELD, _message)
        return orjson.dumps({"type": TYPE_OF_A_BARE_TEXT, "message": cut(message or "")})
    texts = {
        "type": error.require("type", text),
        "message": error.require("message", text),
        "traceback": error.read("traceback", text),
    }
    error.end()
    return orjson.dumps({field: cut(value) for field, value in texts.items() if value is not None})


def cut(message: str) -> str:
    """The text, or as much of its beginning as fits into the limit (bytes of UTF-8) with a note that it was cut."""
    encoded = message.encode()
    if len(encoded) <= ERROR_TEXT_BYTES_MAX:
        return message
    note = f" [cut: the text had {len(encoded)} bytes, the limit is {ERROR_TEXT_BYTES_MAX}]"
    return encoded[: ERROR_TEXT_BYTES_MAX - len(note)].decode(errors="ignore") + note


def _message(value: object) -> str:
    if type(value) is str:
        return value
    raise Unfit("must be a text or an object {type, message, traceback?}")
