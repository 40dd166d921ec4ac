"""JSON values: Python on one side, the exact text on the other.

The standard library does both directions: integers of any size survive, text stays text, and what JSON cannot say
(NaN, infinity, lone surrogates, foreign objects) is refused before anything is sent. A `Raw` value is JSON text that
passes as it is.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from eventjobs.client.errors import InvalidValue

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(value: object, name: str = "the value") -> bytes:
    """The JSON text of a value. Raises InvalidValue, which calls it by its name, when there is none."""
    if isinstance(value, Raw):
        return _checked(value, name)
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{name} holds text that is not valid Unicode (a lone surrogate)") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{name} cannot be written as JSON: {error}") from error


def from_json(text: bytes) -> Any:
    """The value of a JSON text. Raises InvalidValue for what this Python cannot read (an integer too long)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"the JSON text cannot be read: {error}") from error


def object_text(members: dict[str, object], **texts: bytes) -> bytes:
    """The JSON text of an object: members that are None are left out, `texts` are JSON and go in as they are."""
    parts = [to_json(name) + b":" + to_json(value, name) for name, value in members.items() if value is not None]
    parts += [to_json(name) + b":" + text for name, text in texts.items()]
    return b"{" + b",".join(parts) + b"}"


def array_text(items: list[bytes]) -> bytes:
    """The JSON text of an array of texts."""
    return b"[" + b",".join(items) + b"]"


def _checked(raw: Raw, name: str) -> bytes:
    """The text of a raw value, once it is known to be one JSON value: others would change the request around it."""
    text = bytes(raw)
    try:
        msgspec.json.decode(text, type=Raw)
        text.decode("utf-8")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"{name} is a raw value that is not JSON: {error}") from error
    return text
