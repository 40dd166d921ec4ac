"""Which function runs which kind of job."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from eventjobs.worker.context import JobContext

Function = Callable[[JobContext], Any] | Callable[[JobContext], Awaitable[Any]]


@frozen
class Handler:
    """A function for one kind of job: asynchronous ones run on the event loop, plain ones in threads."""

    function: Function
    is_async: bool


class Handlers:
    """The handlers of a worker, one for each kind."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}

    def add(self, kind: str, function: Function) -> None:
        """Let the function run jobs of the kind. Raises ValueError when the kind has one, TypeError for no function."""
        if not callable(function):
            raise TypeError(f"the handler for {kind!r} is not a function")
        if kind in self._by_kind:
            raise ValueError(f"there is a handler for {kind!r} already")
        self._by_kind[kind] = Handler(function, _is_async(function))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that have a handler, sorted."""
        return tuple(sorted(self._by_kind))

    def of(self, kind: str) -> Handler:
        """The handler for a kind. Raises KeyError when there is none."""
        return self._by_kind[kind]


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
