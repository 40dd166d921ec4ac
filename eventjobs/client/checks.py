"""Arguments of the wrong type: told at once and by name, before Python stumbles over them somewhere deep inside.

What a request says is refused with InvalidValue, a setting with TypeError. Bounds of what a request says are the
coordinator's business.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs

from eventjobs.client.errors import InvalidValue

T = TypeVar("T")


def names(argument: str, value: Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of a list of them. A text is refused: it is a sequence as well, and its letters would be the names."""
    if value is None:
        return None
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidValue(f"{argument} is a list of names, unlike {reprlib.repr(value)}")
    found = tuple(value)
    if not all(isinstance(name, str) for name in found):
        raise InvalidValue(f"{argument} is a list of names, unlike {reprlib.repr(found)}")
    return found


def items(value: Iterable[T], shape: type[T]) -> list[T]:
    """The items of a bulk request, each of the shape."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidValue(f"jobs is a list of {shape.__name__}s, unlike {reprlib.repr(value)}")
    found = list(value)
    for index, item in enumerate(found):
        if not isinstance(item, shape):
            raise InvalidValue(f"jobs[{index}] is a {shape.__name__}, unlike {reprlib.repr(item)}")
    return found


def sent_text(argument: str, value: str) -> str:
    """A text of a request."""
    if not isinstance(value, str):
        raise InvalidValue(f"{argument} is a text, unlike {reprlib.repr(value)}")
    return value


def sent_number(argument: str, value: float) -> float:
    """A number of a request."""
    if not _is_number(value):
        raise InvalidValue(f"{argument} is a number, unlike {reprlib.repr(value)}")
    return value


def setting(argument: str, value: object, shape: type | tuple[type, ...], words: str) -> None:
    """Raise TypeError for a setting of another shape; `words` say what it is."""
    if not isinstance(value, shape):
        raise TypeError(f"{argument} is {words}, unlike {reprlib.repr(value)}")


def whole(_: object, attribute: attrs.Attribute, value: object) -> None:
    """Validator of a setting that is a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{attribute.name} is a whole number, unlike {reprlib.repr(value)}")


def number(_: object, attribute: attrs.Attribute, value: object) -> None:
    """Validator of a setting that is a number."""
    if not _is_number(value):
        raise TypeError(f"{attribute.name} is a number, unlike {reprlib.repr(value)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
